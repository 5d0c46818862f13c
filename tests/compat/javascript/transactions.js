// Transactional producers by name, and what is read as committed.
"use strict";

const { randomUUID } = require("node:crypto");
const { Partitioners } = require("kafkajs");
const { PATIENT, connect, using } = require("./connect.js");

const TURN = 10;
const QUIET_FETCHES = 5;
const producers = new Map();

async function open(asked) {
  const client = connect(asked).producer({
    transactionalId: asked.transactional_id,
    transactionTimeout: asked.timeout_ms,
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: Partitioners.DefaultPartitioner,
  });
  await client.connect();
  producers.set(asked.name, { client, transaction: null });
}

async function close({ name }) {
  await producers.get(name).client.disconnect();
  producers.delete(name);
}

// It reads as a member of a group, and has come to the end when fetches bring nothing more.
function read(asked) {
  const { topic } = asked;
  const consumer = connect(asked).consumer({
    groupId: `kafkajs-${randomUUID()}`,
    readUncommitted: asked.isolation === "read_uncommitted",
    maxWaitTimeInMs: 50,
    retry: PATIENT,
  });
  return using(consumer, async () => {
    const values = Array.from({ length: asked.partitions }, () => []);
    await consumer.subscribe({ topic, fromBeginning: true });
    await new Promise((resolve, reject) => {
      let quiet = 0;
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer.on(consumer.events.FETCH, () => {
        quiet += 1;
        if (quiet > QUIET_FETCHES) {
          resolve();
        }
      });
      const eachMessage = async ({ partition, message }) => {
        quiet = 0;
        values[partition].push(message.value.toString("base64"));
      };
      consumer.run({ autoCommit: false, eachMessage }).catch(reject);
    });
    return values.flat();
  });
}

// It reads, writes and commits in transactions, of which every third one is aborted.
function copy(asked) {
  const { topic, output, group } = asked;
  const consumer = connect(asked).consumer({
    groupId: group,
    maxWaitTimeInMs: 50,
    retry: PATIENT,
  });
  const { client } = producers.get(asked.name);
  return using(consumer, async () => {
    await consumer.subscribe({ topic, fromBeginning: true });
    await new Promise((resolve, reject) => {
      let left = asked.count;
      let turns = 0;
      const copyBatch = async ({ partition, messages }) => {
        for (let at = 0; at < messages.length; turns += 1) {
          const some = messages.slice(at, at + TURN);
          const next = String(Number(some.at(-1).offset) + 1);
          const transaction = await client.transaction();
          await transaction.send({ topic: output, messages: some.map(({ value }) => ({ value })) });
          await transaction.sendOffsets({
            consumerGroupId: group,
            topics: [{ topic, partitions: [{ partition, offset: next }] }],
          });
          if (turns % 3 === 1) {
            await transaction.abort();
          } else {
            await transaction.commit();
            at += some.length;
            left -= some.length;
          }
        }
        if (left === 0) {
          resolve();
        }
      };
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      const eachBatch = ({ batch }) => copyBatch(batch).catch(reject);
      consumer.run({ autoCommit: false, eachBatch }).catch(reject);
    });
  });
}

const TRANSACT = {
  txn_open: open,
  txn_close: close,
  txn_read: read,
  txn_copy: copy,
  txn_begin: async (asked, producer) => {
    producer.transaction = await producer.client.transaction();
  },
  txn_send: async ({ topic, partition, bytes }, { transaction }) => {
    const messages = [{ partition, value: Buffer.from(bytes, "base64") }];
    await transaction.send({ topic, messages });
  },
  txn_offsets: ({ group, topic, partition, offset }, { transaction }) =>
    transaction.sendOffsets({
      consumerGroupId: group,
      topics: [{ topic, partitions: [{ partition, offset: String(offset) }] }],
    }),
  txn_commit: (asked, { transaction }) => transaction.commit(),
  txn_abort: (asked, { transaction }) => transaction.abort(),
};

const transact = (asked) => TRANSACT[asked.op](asked, producers.get(asked.name));

module.exports = { transact };
