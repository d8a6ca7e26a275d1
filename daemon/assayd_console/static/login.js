// Takes the token out of the address (where no server and no log ever sees it) and exchanges it for a session.
"use strict";
(async () => {
  const token = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  if (!token) return;
  const answer = await fetch("/login", { method: "POST", body: token });
  if (answer.ok) location.reload();
  else document.getElementById("said").textContent = await answer.text();
})();
