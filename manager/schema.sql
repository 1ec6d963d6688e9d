-- The ledger: what the manager meant, beside what EC2 shows. Version 17 (PRAGMA user_version).
-- Times are milliseconds since 1970 UTC. Lists of ids and nodes are separated by spaces, which neither may hold.
-- Everything here can be lost: leases are read again from attachments, volumes and instances from tags. Not read
-- again are paused_pools (all pools run again), keys (nodes ask for new ones)
-- and departures (an instance that has released its volume, or was warned, may be given it back),
-- nor unclean_volumes but for their tags, nor how warm volumes are until their nodes report again.

-- What this ledger belongs to: deployment, region, created_ms, and account once STS has named it. A ledger of another
-- deployment, Region or account is refused.
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Volumes that we made or adopted. gone_ms: EC2 stopped showing it, or says that it is being deleted.
CREATE TABLE volumes (
  volume_id TEXT PRIMARY KEY,
  pool TEXT NOT NULL,
  node TEXT NOT NULL,                    -- '' of spares and golden volumes
  zone TEXT NOT NULL,
  recorded_ms INTEGER NOT NULL,
  seen INTEGER NOT NULL DEFAULT 0,       -- EC2 has shown it at least once
  ever_used INTEGER NOT NULL DEFAULT 0,  -- never deleted without the operator's word
  gone_ms INTEGER,
  warmth INTEGER NOT NULL DEFAULT -1,    -- percent of the needed blocks that a node reported last; -1: none has
  role TEXT NOT NULL DEFAULT 'node'      -- node, spare, golden or retired
) STRICT, WITHOUT ROWID;

-- Instances that we launched, which alone we may end.
CREATE TABLE instances (
  instance_id TEXT PRIMARY KEY,
  pool TEXT NOT NULL,
  zone TEXT NOT NULL,
  recorded_ms INTEGER NOT NULL,
  gone_ms INTEGER,
  fate TEXT NOT NULL DEFAULT 'fresh' CHECK (fate IN ('fresh', 'proved', 'failed')),
  with_volume INTEGER NOT NULL DEFAULT 0  -- its launch made a volume for it
) STRICT, WITHOUT ROWID;

-- Instances that have begun to give their volume back, by their own word or EC2's warning: they never get one again.
CREATE TABLE departures (
  instance_id TEXT PRIMARY KEY,
  released INTEGER NOT NULL,  -- it said that it has unmounted the volume
  since_ms INTEGER NOT NULL,
  reclaim_ms INTEGER,         -- when EC2 takes it away, by its warning
  advised INTEGER NOT NULL DEFAULT 0,  -- only EC2's rebalance hint said so
  volume_id TEXT NOT NULL DEFAULT '',  -- of which it spoke; '' is unknown
  unclean INTEGER NOT NULL DEFAULT 0   -- that release was no clean end: the disk was taken away under it, or not mounted yet
) STRICT, WITHOUT ROWID;

-- Volumes that were not given back as they should be.
CREATE TABLE unclean_volumes (
  volume_id TEXT PRIMARY KEY,
  instance_id TEXT NOT NULL,    -- that had it
  since_ms INTEGER NOT NULL,
  beyond_repair TEXT NOT NULL,  -- what it said when it could not repair the file system; '' nobody has looked yet
  tagged INTEGER NOT NULL       -- EC2 has shown it quarantined since
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
  id INTEGER PRIMARY KEY,
  pool TEXT NOT NULL,
  node TEXT NOT NULL,
  volume_id TEXT NOT NULL,
  instance_id TEXT NOT NULL,
  device TEXT NOT NULL,    -- '' while reserved
  state TEXT NOT NULL CHECK (state IN ('reserved', 'attaching', 'checking', 'active', 'leaving', 'ended')),
  since_ms INTEGER NOT NULL  -- when the state was entered
) STRICT;
-- Invariant 2: at most one lease beyond reserved per volume. The database is the last to believe it.
CREATE UNIQUE INDEX leases_hold ON leases (volume_id) WHERE state IN ('attaching', 'checking', 'active', 'leaving');
CREATE UNIQUE INDEX leases_open ON leases (volume_id, instance_id) WHERE state <> 'ended';
CREATE INDEX leases_by_instance ON leases (instance_id);

-- Every call that changes something, written before it is sent. body is sent again byte for byte while the state is
-- open (a crash left it so) or unknown (no answer was understood).
CREATE TABLE intents (
  id INTEGER PRIMARY KEY,
  action TEXT NOT NULL,
  body TEXT NOT NULL,
  pool TEXT NOT NULL,
  nodes TEXT NOT NULL,
  resources TEXT NOT NULL,
  zone TEXT NOT NULL,
  token TEXT NOT NULL,
  reason TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'unknown', 'accepted', 'refused')),
  recorded_ms INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  tried_ms INTEGER NOT NULL DEFAULT 0,
  silent_ms INTEGER NOT NULL DEFAULT 0,  -- when an attempt last went out that nothing was heard of
  settled_ms INTEGER,
  error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX intents_undecided ON intents (state) WHERE state IN ('open', 'unknown');
CREATE INDEX intents_tried ON intents (token) WHERE state = 'refused' AND attempts > 0;

-- Device names that are not given again on an instance: EC2 refused them (taken by the AMI, unusable after an earlier
-- attach), or an attach under them was started over under another name.
CREATE TABLE refused_devices (
  instance_id TEXT NOT NULL,
  device TEXT NOT NULL,
  time_ms INTEGER NOT NULL,
  PRIMARY KEY (instance_id, device)
) STRICT, WITHOUT ROWID;

-- Consecutive refusals, by action and node or resource; a success removes the row, but of a stock's create that was
-- throttled just now beside an accepted one.
CREATE TABLE failures (
  key TEXT PRIMARY KEY,
  count INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  code TEXT NOT NULL,
  transient INTEGER NOT NULL,
  sentence TEXT NOT NULL,
  throttled INTEGER NOT NULL DEFAULT 0,
  token TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- Which client token comes next, by action and node; grows when a token was used up.
CREATE TABLE generations (
  key TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What has held at each look since since_ms (a volume not shown, an attach that hangs).
CREATE TABLE watches (
  key TEXT PRIMARY KEY,
  since_ms INTEGER NOT NULL,
  looks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Offers (type, zone, market) that EC2 did not have. An accepted launch of one takes its code away; an instance that
-- runs removes the row.
CREATE TABLE refused_offers (
  instance_type TEXT NOT NULL,
  zone TEXT NOT NULL,
  spot INTEGER NOT NULL,
  since_ms INTEGER NOT NULL,  -- the first refusal of those in a row
  last_ms INTEGER NOT NULL,
  count INTEGER NOT NULL,
  code TEXT NOT NULL,
  sentence TEXT NOT NULL,
  PRIMARY KEY (instance_type, zone, spot)
) STRICT, WITHOUT ROWID;

-- Launches of a pool that failed in a row, for its breaker; one that served, or `pool resume`, removes the row.
CREATE TABLE launch_streaks (
  pool TEXT PRIMARY KEY,
  failures INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `warmroot pool pause`.
CREATE TABLE paused_pools (
  pool TEXT PRIMARY KEY,
  since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys given to instances at their hello, and the last report's number.
CREATE TABLE keys (
  instance_id TEXT PRIMARY KEY,
  key_hex TEXT NOT NULL,
  last_sequence TEXT NOT NULL DEFAULT '',  -- decimal: 64 bits without a sign do not fit SQLite's INTEGER; '' is none
  heard_ms INTEGER NOT NULL DEFAULT 0      -- when the instance last signed something with it
) STRICT, WITHOUT ROWID;

-- What an operator ordered by hand. `serve` or the command itself carries it out and writes the answer.
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('attach', 'release', 'quarantine', 'return', 'delete')),
  subject TEXT NOT NULL,   -- instance or volume
  pool TEXT NOT NULL,      -- of attach
  detail TEXT NOT NULL,    -- why it is quarantined; of a delete: not empty when data may be lost
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'met', 'refused')),
  asked_ms INTEGER NOT NULL,
  settled_ms INTEGER,
  answer TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX orders_open ON orders (kind, subject) WHERE state = 'open';

-- What happened, in words, for people.
CREATE TABLE history (
  id INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  pool TEXT NOT NULL,
  node TEXT NOT NULL,
  event TEXT NOT NULL
) STRICT;
