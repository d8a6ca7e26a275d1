INSERT INTO customers (email, name, country)
SELECT email, name, nullif(country, '') FROM "tmp/customers.csv" WHERE true
ON CONFLICT (email) DO UPDATE SET name = excluded.name, country = coalesce(excluded.country, customers.country);

UPDATE customers SET country = upper(country) WHERE country <> upper(country);
