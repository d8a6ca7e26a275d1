UPDATE sales SET amount = 0 WHERE amount < 0;
SELECT region, amount FROM sales WHERE amount < 0 OR region = 'north' ORDER BY amount;
