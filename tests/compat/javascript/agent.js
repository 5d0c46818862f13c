// Does with KafkaJS what lines of JSON ask for, and answers each with a line.
"use strict";

const readline = require("node:readline");
const { randomUUID } = require("node:crypto");
const zstd = require("fzstd");
const {
  CompressionCodecs,
  CompressionTypes,
  ConfigResourceTypes,
  Partitioners,
} = require("kafkajs");

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
};
const ACKS = { 0: 0, 1: 1, all: -1 };

const { PATIENT, connect, using } = require("./connect.js");
const { transact } = require("./transactions.js");
const lz4 = import("@platformatic/wasm-utils");

// It comes with gzip; the others are for its users to add.
CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async ({ buffer }) => (await lz4).lz4Compress(buffer),
  decompress: async (bytes) => (await lz4).lz4Decompress(bytes),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  decompress: async (bytes) => Buffer.from(zstd.decompress(bytes)),
});

const decoded = (text) => (text === null ? null : Buffer.from(text, "base64"));
const encoded = (bytes) => (bytes === null ? null : Buffer.from(bytes).toString("base64"));

// A name that comes again has all its values in one place.
function headersOf(pairs) {
  const headers = {};
  for (const [name, value] of pairs) {
    (headers[name] ??= []).push(decoded(value));
  }
  return headers;
}

function pairsOf(headers) {
  return Object.entries(headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map((value) => [name, encoded(value)]),
  );
}

const messageOf = (one) => ({
  key: decoded(one.key),
  value: decoded(one.value),
  headers: headersOf(one.headers),
  ...(one.timestamp !== null && { timestamp: String(one.timestamp) }),
  ...(one.partition !== null && { partition: one.partition }),
});

// It sends what one call brings in one batch for each partition, however large that becomes.
function* portions(messages, bytesMax) {
  let portion = [];
  let bytes = 0;
  for (const message of messages) {
    const size = (message.key?.length ?? 0) + (message.value?.length ?? 0) + 100;
    if (portion.length > 0 && bytes + size > bytesMax) {
      yield portion;
      portion = [];
      bytes = 0;
    }
    portion.push(message);
    bytes += size;
  }
  yield portion;
}

// It tells where a partition's first message went, and nobody which messages were that partition's.
function produce(asked) {
  const partitions = new Map();
  const next = new Map();
  const producer = connect(asked).producer({
    createPartitioner: () => {
      const choose = Partitioners.DefaultPartitioner();
      return (about) => {
        const partition = choose(about);
        partitions.set(about.message, partition);
        return partition;
      };
    },
    idempotent: asked.acks === "all" && asked.idempotent === true,
    maxInFlightRequests: 1,
  });
  return using(producer, async () => {
    const places = [];
    for (const messages of portions(asked.messages.map(messageOf), asked.request_bytes_max)) {
      const acknowledged = await producer.send({
        topic: asked.topic,
        messages,
        acks: ACKS[asked.acks],
        compression: CODECS[asked.codec],
      });
      for (const { partition, baseOffset } of acknowledged) {
        next.set(partition, Number(baseOffset));
      }
      for (const message of messages) {
        const partition = partitions.get(message);
        const offset = next.get(partition) ?? -1; // of none, if nobody acknowledges
        next.set(partition, offset + (offset >= 0 ? 1 : 0));
        places.push([partition, offset]);
      }
    }
    return places;
  });
}

// It reads as a member of a group only: one of its own, whose other partitions it leaves alone.
function consume(asked) {
  const { topic } = asked;
  const consumer = connect(asked).consumer({
    groupId: `kafkajs-${randomUUID()}`,
    maxBytesPerPartition: asked.fetch_bytes_max,
    maxWaitTimeInMs: 100,
    retry: PATIENT,
  });
  return using(consumer, async () => {
    const records = [];
    const fromBeginning = asked.reset === "earliest" && asked.starts.every((one) => one.offset !== -1);
    await consumer.subscribe({ topic, fromBeginning });
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        const wanted = new Set(asked.starts.map((one) => one.partition));
        const others = payload.memberAssignment[topic].filter((one) => !wanted.has(one));
        consumer.pause(others.length > 0 ? [{ topic, partitions: others }] : []);
        for (const { partition, offset } of asked.starts.filter((one) => one.offset >= 0)) {
          consumer.seek({ topic, partition, offset: String(offset) });
        }
      });
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ partition, message }) => {
            records.push({
              partition,
              offset: Number(message.offset),
              timestamp: Number(message.timestamp),
              key: encoded(message.key),
              value: encoded(message.value),
              headers: pairsOf(message.headers),
            });
            if (records.length === asked.count) {
              resolve();
            }
          },
        })
        .catch(reject);
    });
    return records.slice(0, asked.count);
  });
}

const offsetsOf = async (admin, { topic, partition }) =>
  (await admin.fetchTopicOffsets(topic)).find((one) => one.partition === partition);

const metadataOf = async (admin, topic) =>
  (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions;

const resource = ({ topic }) => ({ type: ConfigResourceTypes.TOPIC, name: topic });

const ADMINISTER = {
  time: async (admin, asked) => {
    const { high } = await offsetsOf(admin, asked);
    const found = await admin.fetchTopicOffsetsByTimestamp(asked.topic, asked.timestamp);
    const { offset } = found.find((one) => one.partition === asked.partition);
    return offset === high ? -1 : Number(offset); // the end stands for none
  },
  ends: async (admin, asked) => {
    const { low, high } = await offsetsOf(admin, asked);
    return [Number(low), Number(high)];
  },
  topics: (admin) => admin.listTopics(),
  describe: async (admin, { topic }) =>
    (await metadataOf(admin, topic)).map((one) => [
      one.partitionId,
      one.leader,
      one.replicas,
      one.isr,
    ]),
  create: async (admin, { topic, partitions, configs }) => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
    const spec = { topic, numPartitions: partitions, configEntries };
    if (!(await admin.createTopics({ topics: [spec] }))) {
      throw Object.assign(new Error(topic), { type: "TOPIC_ALREADY_EXISTS" });
    }
    return true;
  },
  delete: (admin, { topic }) => admin.deleteTopics({ topics: [topic] }),
  partitions: (admin, { topic, total }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: total }] }),
  configs: async (admin, asked) => {
    const told = await admin.describeConfigs({ resources: [resource(asked)] });
    const entries = told.resources[0].configEntries;
    return Object.fromEntries(entries.map((one) => [one.configName, one.configValue]));
  },
  // It has only the request that sets all configurations anew.
  configure: async (admin, asked) => {
    const configEntries = [{ name: asked.name, value: asked.value }];
    await admin.alterConfigs({ resources: [{ ...resource(asked), configEntries }] });
  },
  delete_records: async (admin, asked) => {
    const { topic, partition, before } = asked;
    await offsetsOf(admin, asked); // it deletes only where it knows the leader
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
    return Number((await offsetsOf(admin, asked)).low);
  },
};

function carryOut(asked) {
  if (asked.op.startsWith("txn_")) {
    return transact(asked);
  }
  switch (asked.op) {
    case "version":
      return require("kafkajs/package.json").version;
    case "produce":
      return produce(asked);
    case "consume":
      return consume(asked);
    default:
      return using(connect(asked).admin(), (admin) => ADMINISTER[asked.op](admin, asked));
  }
}

async function inTime(asked) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("timed out")), asked.deadline_ms);
  });
  try {
    return await Promise.race([carryOut(asked), late]);
  } finally {
    clearTimeout(timer);
  }
}

// What it says may be wrapped in what it did about it.
function nameOf(error) {
  const within = error.type
    ? null
    : (error.errors?.[0] ?? error.partitions?.[0]?.error ?? error.cause);
  return within ? nameOf(within) : (error.type ?? error.name);
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer;
    try {
      answer = { ok: (await inTime(JSON.parse(line))) ?? null };
    } catch (error) {
      answer = { error: nameOf(error), message: error.message };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

main();
