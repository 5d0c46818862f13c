package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	lingers  = 5 * time.Millisecond
	waits    = 500 * time.Millisecond
	bytesMax = 1_000_000
)

var segmentAcks = map[string]kafka.RequiredAcks{
	"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll,
}

func segmentProduce(ctx context.Context, asked *ask) error {
	// The one that all share remembers for seconds which topics there are.
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Transport: transport,
		Addr:      kafka.TCP(asked.Bootstrap), Topic: asked.Topic,
		RequiredAcks: segmentAcks[asked.Acks], BatchTimeout: lingers,
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
	}
	if asked.Codec != "none" {
		if err := writer.Compression.UnmarshalText([]byte(asked.Codec)); err != nil {
			return err
		}
	}
	messages := make([]kafka.Message, len(asked.Values))
	for index, value := range asked.Values {
		messages[index].Value = []byte(value)
	}
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		_ = writer.Close()
		return err
	}
	return writer.Close()
}

func segmentConsume(ctx context.Context, asked *ask) ([]string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{asked.Bootstrap}, Topic: asked.Topic, MinBytes: 1, MaxBytes: bytesMax, MaxWait: waits,
	})
	defer reader.Close()
	return segmentRead(ctx, reader, asked.Count)
}

func segmentGroup(ctx context.Context, asked *ask) ([]string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{asked.Bootstrap}, Topic: asked.Topic, GroupID: asked.Group,
		StartOffset: kafka.FirstOffset, MinBytes: 1, MaxBytes: bytesMax, MaxWait: waits,
	})
	values, err := segmentRead(ctx, reader, asked.Count) // ReadMessage commits
	if err != nil {
		_ = reader.Close()
		return nil, err
	}
	return values, reader.Close()
}

func segmentRead(ctx context.Context, reader *kafka.Reader, count int) ([]string, error) {
	values := []string{}
	for len(values) < count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, err
		}
		values = append(values, string(message.Value))
	}
	return values, nil
}
