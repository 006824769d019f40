// The reference implementation behind a pipe: one command a line on stdin, one answer a line on stdout,
// {"ok": …} or {"error": text}. Commands name the folder of the sessions, or an SQLite container (`root`), and
// the session (`id`).
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const packages = join(process.argv[2], "node_modules", "@earendil-works");
const load = (path) => import(pathToFileURL(join(packages, path)).href);
const core = await load("pi-agent-core/dist/node.js");
const sqlite = await load("pi-session-backend-sqlite-node/dist/index.js");
const ai = await load("pi-ai/dist/index.js");
const C = core.BACKGROUND_CONTEXT;

let time = 0;
const now = () => time;
const repositories = new Map();
const sessions = new Map();

function repository(root) {
  if (!repositories.has(root) && root.endsWith(".sqlite")) {
    const databaseFactory = sqlite.createNodeSqliteFactory();
    const options = { directory: dirname(root), databasePath: root, databaseFactory, now };
    repositories.set(root, new sqlite.SqliteSessionRepo(options));
  } else if (!repositories.has(root)) {
    const fileSystem = new core.NodeExecutionEnv({ cwd: root });
    repositories.set(root, new core.JsonlSessionRepo({ fileSystem, sessionsRoot: root, now }));
  }
  return repositories.get(root);
}

/** Keeps an open session; with `ids`, those that it mints count from there. */
function keep({ root, id, ids }, session) {
  if (ids !== undefined) {
    session.idGenerator = { next: () => `01977420-0000-7000-8000-${String(ids++).padStart(12, "0")}` };
  }
  sessions.set(`${root}\0${id}`, session);
  return session.metadata.path;
}

function open({ root, id }) {
  const session = sessions.get(`${root}\0${id}`);
  if (session === undefined) throw new Error(`${id} is not open`);
  return session;
}

async function listed(command) {
  const found = (await repository(command.root).list(undefined, C)).filter((item) => item.id === command.id);
  if (found.length !== 1) throw new Error(`list() has ${found.length} sessions ${command.id}`);
  return found[0];
}

async function branch({ name, ...command }) {
  const found = await open(command).branch(name, C);
  if (found === undefined) throw new Error(`no branch ${name}`);
  return found;
}

const byText = (left, right) => Buffer.compare(Buffer.from(left, "utf8"), Buffer.from(right, "utf8"));
const byAddress = (left, right) => byText(left.namespace, right.namespace) || byText(left.key, right.key);

function inMemory({ storageState: state }) {
  const address = ({ address, ...rest }) => ({ namespace: address.namespace, key: address.key, ...rest });
  return {
    values: [...state.scalarValues.values()].map(address),
    lists: [...state.listValues.values()].map(address),
    nextSeq: state.getNextSeq(),
  };
}

function inTables({ db, sessionId }) {
  const rows = (table) =>
    db
      .prepare(`SELECT namespace, key, seq, value FROM ${table} WHERE session_id = ? ORDER BY seq`)
      .all(sessionId)
      .map((row) => ({ ...row, value: JSON.parse(row.value) }));
  const lists = new Map();
  for (const { namespace, key, ...element } of rows("list_values")) {
    const address = JSON.stringify([namespace, key]);
    if (!lists.has(address)) lists.set(address, { namespace, key, elements: [] });
    lists.get(address).elements.push(element);
  }
  const { next_seq } = db.prepare("SELECT next_seq FROM sessions WHERE id = ?").get(sessionId);
  return { values: rows("scalar_values"), lists: [...lists.values()], nextSeq: next_seq };
}

/** Everything that the reference has of a session, in the form of our dump, and the path of each branch. */
async function dump(session) {
  const { storage } = session.session ?? session;
  const { path, modifiedAt, ...metadata } = session.metadata;
  const { values, lists, nextSeq } = (storage.storageState ? inMemory : inTables)(storage);
  values.sort(byAddress);
  lists.sort(byAddress);
  const branches = {};
  const paths = {};
  for (const { key, value } of values.filter(({ namespace }) => namespace === "pi.branch.tip")) {
    branches[key] = value;
    const along = await (await session.branch(key, C)).findEntries({ order: "oldestFirst" }, C);
    paths[key] = along.map((entry) => entry.id);
  }
  return {
    metadata,
    name: (await session.getName(C)) ?? null,
    branches,
    entries: await storage.scanEntries({ order: "asc" }, C),
    values,
    lists,
    usage: await storage.scanUsage({ order: "asc" }, C),
    stats: await session.getStats(C),
    nextSeq,
    paths,
  };
}

/** The harness on a closed session: a scripted model calls a tool, and then answers. */
async function harnessOf(command, execute) {
  const session = await repository(command.root).open(await listed(command), C);
  const faux = ai.fauxProvider({
    provider: "faux",
    models: [{ id: "faux-1", contextWindow: 100_000, maxTokens: 4096 }],
  });
  const models = ai.createModels();
  models.setProvider(faux.provider);
  const parameters = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
  const echo = { name: "echo", label: "Echo", description: "Says the text again", parameters, execute };
  faux.setResponses([
    ai.fauxAssistantMessage([ai.fauxToolCall("echo", { text: "hi" }, { id: "call" })], { stopReason: "toolUse" }),
    ai.fauxAssistantMessage("It said hi."),
  ]);
  const options = { session, models, model: faux.getModel(), tools: [echo], systemPrompt: "You are a test." };
  return core.AgentHarness.create(options, C);
}

const echoed = async (_id, { text }) => ({ content: [{ type: "text", text }], details: null });

/** Runs a prompt on the lane `main`; what stands on its path then. */
async function run(command) {
  const { harness } = await harnessOf(command, echoed);
  const lane = await harness.lane("main", C);
  await lane.prompt(command.prompt, undefined, C);
  const path = await lane.findEntries({ order: "oldestFirst" }, C);
  await harness.close(C);
  return path.map((entry) => entry.message?.role ?? entry.type);
}

/** Begins to run a prompt, answers from inside of the tool, and never comes out of it. */
async function hang(command) {
  const { harness } = await harnessOf(command, () => {
    answer({ ok: "in the tool" });
    return new Promise(() => setInterval(() => {}, 1e6));
  });
  await (await harness.lane("main", C)).prompt(command.prompt, undefined, C);
}

/** The operations that the harness finds unfinished. */
async function unfinished(command) {
  const { harness, open } = await harnessOf(command, echoed);
  await harness.close(C);
  return open;
}

/** A dump with its ids numbered, without what tells of the import: the record of its source, a first commit. */
function withoutIds(text) {
  const { nextSeq, lists, ...dump } = JSON.parse(text);
  dump.values = dump.values.filter(({ namespace }) => namespace !== "app");
  const ids = new Map([...dump.entries, ...dump.usage].map(({ id }, number) => [id, `id ${number}`]));
  return JSON.parse(JSON.stringify(dump), (_, value) => ids.get(value) ?? value);
}

const commands = {
  run,
  hang,
  unfinished,
  version: () => process.version,
  list: async ({ root }) => repository(root).list(undefined, C),
  create: async ({ ids, root, ...options }) =>
    keep({ root, id: options.id, ids }, await repository(root).create(options, C)),
  open: async (command) => keep(command, await repository(command.root).open(await listed(command), C)),
  close: async (command) => {
    await open(command).close(C);
    sessions.delete(`${command.root}\0${command.id}`);
  },
  fork: async ({ source, ids, root, ...options }) => {
    const from = await listed({ root, id: source });
    return keep({ root, id: options.id, ids }, await repository(root).fork(from, options, C));
  },
  commit: async (command) =>
    open(command).mutate((mutator) => mutator.commit(JSON.parse(command.writes), C), C),
  createBranch: async (command) => {
    await open(command).createBranch(command.name, command.at ?? null, C);
  },
  appendMessage: async (command) => (await branch(command)).appendMessage(JSON.parse(command.message), C),
  appendCustom: async (command) =>
    (await branch(command)).appendCustomEntry(
      command.customType,
      command.data === undefined ? undefined : JSON.parse(command.data),
      C,
    ),
  setName: async (command) => open(command).setName(command.text ?? undefined, C),
  setLabel: async (command) => open(command).setLabel(command.entry, command.text ?? undefined, C),
  stats: async (command) => open(command).getStats(C),
  /** What it has of the session is what the text says, both read by the same parser; else the difference. */
  compare: async (command) => {
    assert.deepEqual(JSON.parse(command.text), await dump(open(command)));
  },
  /** Two of our dumps, of sessions that came from one old file, say the same; else the difference. */
  compareImports: ({ ours, theirs }) => assert.deepEqual(withoutIds(ours), withoutIds(theirs)),
};

function answer(given) {
  process.stdout.write(`${JSON.stringify(given)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { op, now: told, ...command } = JSON.parse(line);
  if (told !== undefined) time = told;
  try {
    answer({ ok: (await commands[op](command)) ?? null });
  } catch (error) {
    const causes = [];
    for (let cause = error; cause instanceof Error; cause = cause.cause) causes.push(cause.message);
    answer({ error: causes.join(" <- ") });
  }
}
