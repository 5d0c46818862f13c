// Transactional producers by name, and what is read as committed.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var producers = map[string]*kgo.Client{}

func transact(ctx context.Context, asked *ask) (any, error) {
	client := producers[asked.Name]
	switch asked.Op {
	case "txn_open":
		opts, err := options(
			asked,
			kgo.TransactionalID(asked.TransactionalID),
			kgo.TransactionTimeout(time.Duration(asked.TimeoutMs)*time.Millisecond),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerLinger(0),
		)
		if err != nil {
			return nil, err
		}
		made, err := kgo.NewClient(opts...)
		if err != nil {
			return nil, err
		}
		producers[asked.Name] = made
		// Others take over when they are opened, this one with its first transaction.
		_, _, err = made.ProducerID(ctx)
		return true, err
	case "txn_begin":
		return true, client.BeginTransaction()
	case "txn_send":
		sent := &kgo.Record{Topic: asked.Topic, Partition: asked.Partition, Value: asked.Bytes}
		return true, client.ProduceSync(ctx, sent).FirstErr()
	case "txn_commit":
		return true, client.EndTransaction(ctx, kgo.TryCommit)
	case "txn_abort":
		if err := client.AbortBufferedRecords(ctx); err != nil {
			return nil, err
		}
		return true, client.EndTransaction(ctx, kgo.TryAbort)
	case "txn_close":
		client.Close()
		delete(producers, asked.Name)
		return true, nil
	case "txn_copy":
		return copied(ctx, asked)
	case "txn_read":
		return read(ctx, asked)
	}
	return nil, fmt.Errorf("unknown %s", asked.Op)
}

// read reads to the end; returns the values in the order of partitions.
func read(ctx context.Context, asked *ask) (any, error) {
	level := kgo.ReadCommitted()
	if asked.Isolation == "read_uncommitted" {
		level = kgo.ReadUncommitted()
	}
	values := [][]byte{}
	for number := int32(0); number < asked.Partitions; number++ {
		starts := map[int32]kgo.Offset{number: kgo.NewOffset().AtStart()}
		opts, err := options(
			asked,
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: starts}),
			kgo.FetchIsolationLevel(level),
			kgo.KeepControlRecords(),
		)
		if err != nil {
			return nil, err
		}
		client, err := kgo.NewClient(opts...)
		if err != nil {
			return nil, err
		}
		more, err := readOne(ctx, asked, client, number)
		client.Close()
		if err != nil {
			return nil, err
		}
		values = append(values, more...)
	}
	return values, nil
}

func readOne(ctx context.Context, asked *ask, client *kgo.Client, number int32) ([][]byte, error) {
	admin := kadm.NewClient(client)
	list := admin.ListCommittedOffsets
	if asked.Isolation == "read_uncommitted" {
		list = admin.ListEndOffsets
	}
	ends, err := list(ctx, asked.Topic)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(asked.Topic, number)
	if end.Err != nil {
		return nil, end.Err
	}
	var values [][]byte
	// The last offset is that of a control record, which is kept to be seen here.
	for at := int64(0); at < end.Offset; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			at = one.Offset + 1
			if !one.Attrs.IsControl() {
				values = append(values, one.Value)
			}
		})
	}
	return values, nil
}

// copied reads, writes and commits in transactions, of which every third one is aborted.
func copied(ctx context.Context, asked *ask) (any, error) {
	opts, err := options(
		asked,
		kgo.TransactionalID(asked.TransactionalID),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets(),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, err
	}
	session, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	turns := 0
	for left := asked.Count; left > 0; {
		fetches := session.PollRecords(ctx, 10)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: asked.Output, Value: one.Value}, nil)
		})
		end := kgo.TryCommit
		if turns%3 == 1 {
			end = kgo.TryAbort
		}
		turns++
		committed, err := session.End(ctx, end)
		if err != nil {
			return nil, err
		}
		if committed {
			left -= fetches.NumRecords()
		}
	}
	return turns, nil
}
