// Adds up the second column by the first: `north 3` and `north 4` make {"north": 7}.
const lines = require("fs").readFileSync(0, "utf8").trim().split("\n");
const totals = {};
for (const line of lines) {
    const [region, count] = line.split(" ");
    totals[region] = (totals[region] ?? 0) + Number(count);
}
console.log(JSON.stringify(totals));
require("fs").writeFileSync("totals.json", JSON.stringify(totals));
