// Does with sarama or kafka-go what lines of JSON ask for, and answers each with a line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

type ask struct {
	Op         string   `json:"op"`
	Bootstrap  string   `json:"bootstrap"`
	DeadlineMs int64    `json:"deadline_ms"`
	Topic      string   `json:"topic"`
	Values     []string `json:"values"`
	Codec      string   `json:"codec"`
	Acks       string   `json:"acks"`
	Count      int      `json:"count"`
	Group      string   `json:"group"`
	Protocol   string   `json:"protocol"`
}

type library struct {
	module string
	// produce sends the values to partition 0, and returns when all are acknowledged.
	produce func(ctx context.Context, asked *ask) error
	// consume returns the first values of partition 0.
	consume func(ctx context.Context, asked *ask) ([]string, error)
	// group reads so many values as a member of a group, commits them, and leaves.
	group func(ctx context.Context, asked *ask) ([]string, error)
}

var libraries = map[string]library{
	"sarama":   {"github.com/IBM/sarama", saramaProduce, saramaConsume, saramaGroup},
	"kafka-go": {"github.com/segmentio/kafka-go", segmentProduce, segmentConsume, segmentGroup},
}

func main() {
	chosen := libraries[os.Args[1]]
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked ask
		answer := map[string]any{}
		if err := json.Unmarshal(line, &asked); err != nil {
			answer["error"], answer["message"] = "BadRequest", err.Error()
		} else if ok, err := do(chosen, &asked); err != nil {
			answer["error"], answer["message"] = fmt.Sprintf("%T", err), err.Error()
		} else {
			answer["ok"] = ok
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

func do(chosen library, asked *ask) (any, error) {
	deadline := time.Duration(asked.DeadlineMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	switch asked.Op {
	case "version":
		return version(chosen.module), nil
	case "produce":
		return true, chosen.produce(ctx, asked)
	case "consume":
		return chosen.consume(ctx, asked)
	case "group":
		return chosen.group(ctx, asked)
	}
	return nil, fmt.Errorf("unknown %s", asked.Op)
}

func version(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}
