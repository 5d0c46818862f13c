// How its clients are made, and ended.
"use strict";

const fs = require("node:fs");
const { Kafka, logLevel } = require("kafkajs");

function connect(asked) {
  return new Kafka({
    clientId: "kafkajs",
    brokers: [asked.bootstrap],
    ssl: asked.ca ? { ca: [fs.readFileSync(asked.ca)] } : false,
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, retries: 6 },
  });
}

// Brokers that have just begun take their time until they lead groups.
const PATIENT = { initialRetryTime: 50, retries: 9 };

async function using(client, use) {
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.disconnect();
  }
}

module.exports = { PATIENT, connect, using };
