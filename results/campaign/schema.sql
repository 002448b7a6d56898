-- The SQLite file of a campaign. docs/database.md describes it for readers.
-- Facts are only ever added: triggers refuse to change or delete what was measured or concluded.

CREATE TABLE provenance (
    id INTEGER PRIMARY KEY,
    data TEXT NOT NULL, -- JSON, see results/campaign/codec.py
    backend TEXT NOT NULL -- JSON: what the backend said of itself
);

CREATE TABLE benchmark (
    id TEXT PRIMARY KEY,
    purpose TEXT NOT NULL,
    divisor INTEGER NOT NULL,
    setup TEXT NOT NULL, -- JSON [[bytes in hex, text], ...]
    body TEXT NOT NULL
);

CREATE TABLE measurement (
    id INTEGER PRIMARY KEY,
    request TEXT NOT NULL UNIQUE, -- benchmark id : counters wanted : unrolled or loop
    benchmark TEXT NOT NULL REFERENCES benchmark (id),
    provenance INTEGER NOT NULL REFERENCES provenance (id),
    status TEXT NOT NULL,
    detail TEXT NOT NULL,
    samples BLOB NOT NULL -- zlib over JSON, see results/campaign/codec.py
);

CREATE TABLE variant (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    string TEXT NOT NULL,
    iform TEXT NOT NULL
);

CREATE TABLE conclusion (
    id INTEGER PRIMARY KEY,
    variant INTEGER NOT NULL REFERENCES variant (id),
    inference TEXT NOT NULL, -- version of the inference that drew it
    provenance INTEGER NOT NULL REFERENCES provenance (id),
    time TEXT NOT NULL, -- UTC, ISO 8601
    outcome TEXT NOT NULL CHECK (outcome IN ('measured', 'failed', 'skipped')),
    data TEXT NOT NULL -- JSON, see results/campaign/codec.py
);

CREATE INDEX conclusion_variant ON conclusion (variant);

CREATE TABLE evidence ( -- the measurements that a conclusion rests on, in the order in which they were asked for
    conclusion INTEGER NOT NULL REFERENCES conclusion (id),
    position INTEGER NOT NULL,
    measurement INTEGER NOT NULL REFERENCES measurement (id),
    PRIMARY KEY (conclusion, position)
) WITHOUT ROWID;

CREATE TRIGGER measurement_is_kept BEFORE DELETE ON measurement
BEGIN SELECT RAISE(ABORT, 'measurements are only ever added'); END;
CREATE TRIGGER measurement_is_final BEFORE UPDATE ON measurement
BEGIN SELECT RAISE(ABORT, 'measurements are only ever added'); END;
CREATE TRIGGER conclusion_is_kept BEFORE DELETE ON conclusion
BEGIN SELECT RAISE(ABORT, 'conclusions are only ever added'); END;
CREATE TRIGGER conclusion_is_final BEFORE UPDATE ON conclusion
BEGIN SELECT RAISE(ABORT, 'conclusions are only ever added'); END;
