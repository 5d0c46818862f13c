// Does with franz-go what lines of JSON ask for, and answers each with a line.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type header [2]*string

type message struct {
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
	Timestamp *int64   `json:"timestamp"`
	Partition *int32   `json:"partition"`
}

type start struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

type ask struct {
	Op              string             `json:"op"`
	Bootstrap       string             `json:"bootstrap"`
	CA              string             `json:"ca"`
	DeadlineMs      int64              `json:"deadline_ms"`
	Topic           string             `json:"topic"`
	Partition       int32              `json:"partition"`
	Messages        []message          `json:"messages"`
	Codec           string             `json:"codec"`
	Acks            string             `json:"acks"`
	Idempotent      *bool              `json:"idempotent"`
	RequestBytesMax int32              `json:"request_bytes_max"`
	Starts          []start            `json:"starts"`
	Count           int                `json:"count"`
	Reset           string             `json:"reset"`
	FetchBytesMax   int32              `json:"fetch_bytes_max"`
	Timestamp       int64              `json:"timestamp"`
	Partitions      int32              `json:"partitions"`
	Configs         map[string]*string `json:"configs"`
	Total           int                `json:"total"`
	Name            string             `json:"name"`
	Value           string             `json:"value"`
	Before          int64              `json:"before"`
	TransactionalID string             `json:"transactional_id"`
	TimeoutMs       int64              `json:"timeout_ms"`
	Group           string             `json:"group"`
	Output          string             `json:"output"`
	Isolation       string             `json:"isolation"`
	Bytes           []byte             `json:"bytes"`
}

type received struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   [][2]any `json:"headers"`
}

func main() {
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
		} else if ok, err := do(&asked); err != nil {
			answer["error"], answer["message"] = nameOf(err), err.Error()
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

func nameOf(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return fmt.Sprintf("%T", err)
}

func options(asked *ask, more ...kgo.Opt) ([]kgo.Opt, error) {
	opts := append(more, kgo.SeedBrokers(asked.Bootstrap))
	if asked.CA != "" {
		pem, err := os.ReadFile(asked.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
	}
	return opts, nil
}

func do(asked *ask) (any, error) {
	if asked.Op == "version" {
		return version(), nil
	}
	deadline := time.Duration(asked.DeadlineMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if strings.HasPrefix(asked.Op, "txn_") {
		return transact(ctx, asked)
	}
	switch asked.Op {
	case "produce":
		return produce(ctx, asked)
	case "consume":
		return consume(ctx, asked)
	}
	opts, err := options(asked)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return administer(ctx, asked, kadm.NewClient(client))
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return "unknown"
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

// explicit obeys the partition of a message that has one, and Java's default else.
func explicit(asked *ask) kgo.Partitioner {
	if len(asked.Messages) > 0 && asked.Messages[0].Partition != nil {
		return kgo.ManualPartitioner()
	}
	return kgo.StickyKeyPartitioner(nil)
}

func produce(ctx context.Context, asked *ask) (any, error) {
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	more := []kgo.Opt{
		kgo.AllowAutoTopicCreation(),
		kgo.RequiredAcks(acks[asked.Acks]),
		kgo.ProducerBatchCompression(codec(asked.Codec)),
		kgo.ProducerBatchMaxBytes(asked.RequestBytesMax + 50_000),
		kgo.RecordPartitioner(explicit(asked)),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.UnknownTopicRetries(2),
	}
	if asked.Acks != "all" || (asked.Idempotent != nil && !*asked.Idempotent) {
		more = append(more, kgo.DisableIdempotentWrite())
	}
	opts, err := options(asked, more...)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	places := make([][2]int64, len(asked.Messages))
	var lock sync.Mutex
	var first error
	for index, one := range asked.Messages {
		client.Produce(ctx, record(asked.Topic, one), func(stored *kgo.Record, err error) {
			lock.Lock()
			defer lock.Unlock()
			if err != nil && first == nil {
				first = err
			}
			places[index] = [2]int64{int64(stored.Partition), stored.Offset}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	return places, first
}

func record(topic string, one message) *kgo.Record {
	made := &kgo.Record{Topic: topic, Key: one.Key, Value: one.Value}
	if one.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*one.Timestamp)
	}
	if one.Partition != nil {
		made.Partition = *one.Partition
	}
	for _, pair := range one.Headers {
		var value []byte
		if pair[1] != nil {
			text, _ := json.Marshal(*pair[1])
			_ = json.Unmarshal(text, &value)
		}
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: *pair[0], Value: value})
	}
	return made
}

func consume(ctx context.Context, asked *ask) (any, error) {
	starts := map[int32]kgo.Offset{}
	for _, one := range asked.Starts {
		switch one.Offset {
		case -2:
			starts[one.Partition] = kgo.NewOffset().AtStart()
		case -1:
			starts[one.Partition] = kgo.NewOffset().AtEnd()
		default:
			starts[one.Partition] = kgo.NewOffset().At(one.Offset)
		}
	}
	reset := kgo.NewOffset().AtStart()
	if asked.Reset == "latest" {
		reset = kgo.NewOffset().AtEnd()
	} else if asked.Reset == "none" {
		reset = kgo.NoResetOffset()
	}
	opts, err := options(
		asked,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: starts}),
		kgo.ConsumeResetOffset(reset),
		kgo.FetchMaxPartitionBytes(asked.FetchBytesMax),
	)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []received{}
	for len(records) < asked.Count {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			return nil, failed.Err
		}
		fetches.EachRecord(func(one *kgo.Record) { records = append(records, describe(one)) })
	}
	return records[:asked.Count], nil
}

func describe(one *kgo.Record) received {
	headers := [][2]any{}
	for _, pair := range one.Headers {
		headers = append(headers, [2]any{pair.Key, pair.Value})
	}
	return received{
		one.Partition, one.Offset, one.Timestamp.UnixMilli(), one.Key, one.Value, headers,
	}
}

func administer(ctx context.Context, asked *ask, admin *kadm.Client) (any, error) {
	topic := asked.Topic
	switch asked.Op {
	case "time":
		listed, err := admin.ListOffsetsAfterMilli(ctx, asked.Timestamp, topic)
		if err != nil {
			return nil, err
		}
		found, _ := listed.Lookup(topic, asked.Partition)
		if found.Timestamp < 0 { // kadm gives the end where no record is so late
			return -1, found.Err
		}
		return found.Offset, found.Err
	case "ends":
		low, err := admin.ListStartOffsets(ctx, topic)
		if err != nil {
			return nil, err
		}
		high, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return nil, err
		}
		first, _ := low.Lookup(topic, asked.Partition)
		last, _ := high.Lookup(topic, asked.Partition)
		return [2]int64{first.Offset, last.Offset}, last.Err
	case "topics":
		details, err := admin.ListTopics(ctx)
		return details.Names(), err
	case "describe":
		details, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return nil, err
		}
		partitions := [][4]any{}
		for _, one := range details[topic].Partitions.Sorted() {
			partitions = append(partitions, [4]any{one.Partition, one.Leader, one.Replicas, one.ISR})
		}
		return partitions, details[topic].Err
	case "create":
		made, err := admin.CreateTopic(ctx, asked.Partitions, -1, asked.Configs, topic)
		return true, either(err, made.Err)
	case "delete":
		gone, err := admin.DeleteTopic(ctx, topic)
		return true, either(err, gone.Err)
	case "partitions":
		made, err := admin.UpdatePartitions(ctx, asked.Total, topic)
		return true, either(err, made.Error())
	case "configs":
		told, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return nil, err
		}
		values := map[string]*string{}
		one, err := told.On(topic, nil)
		for _, config := range one.Configs {
			values[config.Key] = config.Value
		}
		return values, either(err, one.Err)
	case "configure":
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: asked.Name, Value: &asked.Value}
		told, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, topic)
		if err != nil {
			return nil, err
		}
		one, err := told.On(topic, nil)
		return true, either(err, one.Err)
	case "delete_records":
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, Partition: asked.Partition, At: asked.Before})
		told, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		one, _ := told.Lookup(topic, asked.Partition)
		return one.LowWatermark, one.Err
	}
	return nil, errors.New("unknown " + strconv.Quote(asked.Op))
}

func either(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
