package main

import (
	"context"

	"github.com/IBM/sarama"
)

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

var saramaAcks = map[string]sarama.RequiredAcks{
	"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
}

// saramaConfig speaks the protocol of a release of Kafka, or of the one that is sarama's default.
func saramaConfig(asked *ask) (*sarama.Config, error) {
	config := sarama.NewConfig()
	if asked.Protocol != "" {
		version, err := sarama.ParseKafkaVersion(asked.Protocol)
		if err != nil {
			return nil, err
		}
		config.Version = version
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Producer.Return.Successes = true
	return config, nil
}

func saramaProduce(_ context.Context, asked *ask) error {
	config, err := saramaConfig(asked)
	if err != nil {
		return err
	}
	config.Producer.Compression = saramaCodecs[asked.Codec]
	config.Producer.RequiredAcks = saramaAcks[asked.Acks]
	config.Producer.Partitioner = sarama.NewManualPartitioner
	if asked.Acks == "all" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{asked.Bootstrap}, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, len(asked.Values))
	for index, value := range asked.Values {
		messages[index] = &sarama.ProducerMessage{
			Topic: asked.Topic, Value: sarama.StringEncoder(value),
		}
	}
	if err := producer.SendMessages(messages); err != nil {
		_ = producer.Close()
		return err
	}
	return producer.Close()
}

func saramaConsume(ctx context.Context, asked *ask) ([]string, error) {
	config, err := saramaConfig(asked)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumer([]string{asked.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(asked.Topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	values := []string{}
	for len(values) < asked.Count {
		select {
		case message := <-reader.Messages():
			values = append(values, string(message.Value))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return values, nil
}

// counting is a member that has enough after so many records.
type counting struct {
	count  int
	values []string
	enough context.CancelFunc
}

func (*counting) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*counting) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (member *counting) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for message := range claim.Messages() {
		member.values = append(member.values, string(message.Value))
		session.MarkMessage(message, "")
		if len(member.values) == member.count {
			session.Commit()
			member.enough()
			return nil
		}
	}
	return nil
}

func saramaGroup(ctx context.Context, asked *ask) ([]string, error) {
	config, err := saramaConfig(asked)
	if err != nil {
		return nil, err
	}
	group, err := sarama.NewConsumerGroup([]string{asked.Bootstrap}, asked.Group, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	working, enough := context.WithCancel(ctx)
	defer enough()
	member := &counting{count: asked.Count, enough: enough}
	for working.Err() == nil {
		if err := group.Consume(working, []string{asked.Topic}, member); err != nil {
			return nil, err
		}
	}
	return member.values, ctx.Err()
}
