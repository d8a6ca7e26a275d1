CREATE TABLE IF NOT EXISTS sales (id INTEGER PRIMARY KEY AUTOINCREMENT, region TEXT NOT NULL, amount REAL DEFAULT 0.0 CHECK (amount >= 0), at TEXT DEFAULT CURRENT_TIMESTAMP, UNIQUE (region, at), FOREIGN KEY (region) REFERENCES regions (name) ON DELETE CASCADE)
CREATE TABLE IF NOT EXISTS big AS SELECT * FROM sales WHERE amount > 10
CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b TEXT COLLATE NOCASE, c NUMERIC(10, 2), d INT GENERATED ALWAYS AS (a * 2) STORED)
CREATE TABLE IF NOT EXISTS t (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID
CREATE TABLE IF NOT EXISTS t (a INT CONSTRAINT pos CHECK (a > 0)) STRICT, WITHOUT ROWID
CREATE TEMP TABLE IF NOT EXISTS scratch (a, b)
CREATE UNIQUE INDEX IF NOT EXISTS ix ON sales (region COLLATE NOCASE DESC, lower(at)) WHERE amount IS NOT NULL
CREATE VIEW IF NOT EXISTS totals (region, total) AS SELECT region, sum(amount) FROM sales GROUP BY region HAVING count(*) > 1
ALTER TABLE sales ADD COLUMN note TEXT DEFAULT ''
ALTER TABLE main.sales ADD extra
INSERT INTO sales (region, amount) VALUES ('north', 10.5), ('south; DELETE FROM sales', -3e2), ('it''s', NULL)
INSERT INTO sales DEFAULT VALUES
INSERT OR IGNORE INTO sales (region) SELECT DISTINCT region FROM staging
INSERT INTO sales (id, region) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET region = excluded.region WHERE excluded.region <> '' RETURNING id
INSERT INTO sales (id) VALUES (1) ON CONFLICT DO NOTHING
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO sales (amount) SELECT i FROM n
UPDATE sales SET amount = amount * 1.1, region = upper(trim(region)) WHERE id IN (1, 2, 3)
UPDATE sales SET (region, amount) = (SELECT r, a FROM src WHERE src.id = sales.id) WHERE EXISTS (SELECT 1 FROM src WHERE src.id = sales.id)
UPDATE sales AS s SET amount = u.amount FROM updates AS u WHERE s.id = u.id
UPDATE OR IGNORE sales SET amount = 1 WHERE id = 2
WITH old AS (SELECT id FROM sales WHERE at < '2024') DELETE FROM sales WHERE id IN (SELECT id FROM old)
DELETE FROM sales WHERE rowid NOT IN (SELECT min(rowid) FROM sales GROUP BY region, at)
DELETE FROM sales /* all of one region; not DROP */ WHERE region = 'north' -- nothing else
SELECT region, row_number() OVER (PARTITION BY region ORDER BY amount DESC NULLS LAST) AS rn, sum(amount) FILTER (WHERE amount > 0) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM sales WINDOW w AS (PARTITION BY region)
SELECT CASE WHEN amount > 10 THEN 'big' ELSE 'small' END AS size, coalesce(a, 0), cast(a AS INTEGER), a || '-' || b, ~a, a << 2, iif(a, 1, 0), hex(x'00ff'), a IS NOT b, a NOT LIKE 'x' FROM t
SELECT strftime('%Y-%m', at) AS month, date('now', '-1 day'), json_extract(j, '$.a'), j ->> '$.b', group_concat(region, ', '), printf('%05d', a) FROM t
SELECT * FROM a LEFT JOIN b ON a.id = b.id CROSS JOIN d NATURAL JOIN e, f WHERE a.x = 1 ORDER BY 1, a.y COLLATE NOCASE LIMIT 10 OFFSET 5
SELECT 1 UNION ALL SELECT 3 INTERSECT SELECT 4 EXCEPT SELECT 5 ORDER BY 1 LIMIT 3
SELECT value FROM json_each('[1,2]')
SELECT region FROM "data/sales.csv" WHERE region <> 'total'
SELECT [odd name], `other`, "quoted ""twice""", größe FROM main.sales
SELECT a AS "DROP", b AS "DELETE FROM t" FROM t -- UPDATE t SET a = 1
SELECT replace(a, 'x', 'y'), 0x1F, 1e3, .5, 5. FROM t
VALUES (1, 'a'), (2, 'b')
BEGIN; UPDATE t SET a = 1 WHERE id = 1; COMMIT;
BEGIN IMMEDIATE; SAVEPOINT s; ROLLBACK TO s; RELEASE s; END TRANSACTION
PRAGMA table_info(sales)
PRAGMA main.index_list('sales'); PRAGMA foreign_key_check; PRAGMA integrity_check
PRAGMA foreign_keys = ON; PRAGMA foreign_keys; PRAGMA foreign_keys(1)
EXPLAIN QUERY PLAN SELECT a FROM t WHERE b = 1; EXPLAIN UPDATE t SET a = 1 WHERE b = 2
CREATE TABLE IF NOT EXISTS t (a UNSIGNED BIG INT NOT NULL, b NATIVE CHARACTER(70), c LONG VARCHAR DEFAULT 'x', "d e" ANY, f, 'g' TEXT)
CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, a INT, b GENERATED ALWAYS AS (a + 1) VIRTUAL, c AS (a * 2) STORED)
CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY ON CONFLICT IGNORE, b TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT ABORT, UNIQUE (a, b) ON CONFLICT ROLLBACK)
CREATE TABLE IF NOT EXISTS t (a INTEGER, CONSTRAINT pk PRIMARY KEY (a AUTOINCREMENT), CHECK (a IN (1, 2) AND length(a) < 5))
SELECT lateral, fetch, q.any, "any" AS grant FROM qualify AS q WHERE interval > 1 AND div = 2 ORDER BY lock
SELECT * FROM pragma_table_info('sales')
SELECT lag(amount, 1, 0) OVER w AS before, ntile(4) OVER w FROM sales WINDOW w AS (PARTITION BY region ORDER BY at), v AS (w)
SELECT j.key, j.value ->> '$.a', json_group_object(a, b) FROM t, json_tree(t.x, '$.a') AS j WHERE (a, b) IN (VALUES (1, 2))
UPDATE t SET a = s.x FROM (SELECT id, max(y) AS x FROM u GROUP BY id) AS s WHERE s.id = t.id RETURNING t.id
DELETE FROM t WHERE a IS NOT DISTINCT FROM b AND c NOT GLOB 'x*' RETURNING *
WITH a AS MATERIALIZED (SELECT 1 AS x), b (y) AS (VALUES (1), (2)) SELECT a.x, y FROM a, b ORDER BY y NULLS LAST
INSERT INTO t AS x (a, n) VALUES (1, 1) ON CONFLICT (a) WHERE n > 0 DO UPDATE SET n = x.n + excluded.n
ALTER TABLE regions ADD COLUMN price DECIMAL(15, 2);
ALTER TABLE regions ADD COLUMN rate DECIMAL (5);
