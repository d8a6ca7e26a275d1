// Keys, copying, files that are dropped, questions before what cannot be undone. Everything works without it
// but for these; pages that change by themselves are htmx's.
"use strict";
(() => {
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;
  let goes = false;

  function step(by) {
    const rows = [...document.querySelectorAll("tr[data-row]")];
    const links = rows.map((row) => row.querySelector("a")).filter(Boolean);
    const now = links.indexOf(document.activeElement);
    const next = links[Math.min(Math.max(now + by, 0), links.length - 1)];
    if (next) next.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && typing(event.target)) event.target.blur();
    if (event.ctrlKey || event.altKey || event.metaKey || typing(event.target)) return;
    if (goes) {
      goes = false;
      const link = document.querySelector(`header a[data-key="${CSS.escape(event.key)}"]`);
      if (link) link.click();
      return;
    }
    const acts = {
      j: () => step(1),
      k: () => step(-1),
      g: () => { goes = true; },
      "/": () => { const field = document.querySelector("[data-filter]"); if (field) field.focus(); },
    };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  });

  // A click anywhere in a row opens it, unless text is being selected; on return, its link has the focus.
  const opened = () => `opened ${location.pathname}`;
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-row]");
    const link = row && (event.target.closest("a, button, input") || row.querySelector("a"));
    if (!link || !link.href || getSelection().toString()) return;
    sessionStorage.setItem(opened(), link.getAttribute("href"));
    if (!event.target.closest("a")) link.click();
  });
  addEventListener("pageshow", () => {
    const href = sessionStorage.getItem(opened());
    const link = href && document.querySelector(`tr[data-row] a[href="${CSS.escape(href)}"]`);
    if (link && performance.getEntriesByType("navigation")[0].type === "back_forward") link.focus();
  });

  // A picture as pixels, twice as many as it is large, on the white that a file of it is read on.
  async function keepAsPng(address) {
    const picture = new Image();
    picture.src = `${address}&shown`;
    await picture.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [picture.width * 2, picture.height * 2];
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await new Promise((made) => { canvas.toBlob(made, "image/png"); }));
    link.download = address.replace(/[?].*/, "").replace(/.*[/]/, "").replace(/[.]svg$/, ".png");
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-png]");
    if (button) keepAsPng(button.dataset.png);
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(await (await fetch(button.dataset.copy)).text());
    button.textContent = "Copied";
  });

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  // A file goes as it is, however large: a form would wrap it.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!("sends" in form.dataset)) return;
    event.preventDefault();
    const [file] = form.querySelector("[type=file]").files;
    const headers = { "Content-Type": "application/x-ndjson", "HX-Request": "true" };
    const answer = await fetch(form.action, { method: "POST", headers, body: file });
    if (answer.ok) location.assign(answer.headers.get("Location"));
    else form.querySelector("output").textContent = await answer.text();
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.submit();
  });

  // A file goes into the row of its name, or into the last row, which is empty; another is added then.
  function fillRow(rows, name, text) {
    const all = [...rows.querySelectorAll(".row")];
    const row = all.find((each) => each.querySelector("input").value === name) || all.at(-1);
    row.querySelector("input").value = name;
    row.querySelector("textarea").value = text;
    if (row === all.at(-1)) addRow(rows);
  }

  function addRow(rows) {
    const last = [...rows.querySelectorAll(".row")].at(-1);
    const fresh = last.cloneNode(true);
    for (const field of fresh.querySelectorAll("input, select, textarea, label")) {
      for (const part of ["name", "id", "htmlFor"]) {
        if (field[part]) field[part] = field[part].replace(/[.](\d+)[.]/, (_, number) => `.${+number + 1}.`);
      }
      if ("value" in field) field.value = "";
    }
    fresh.setAttribute("aria-label", last.getAttribute("aria-label").replace(/\d+$/, (number) => +number + 1));
    last.after(fresh);
    return fresh;
  }

  document.addEventListener("click", (event) => {
    if (event.target.matches("[data-more]")) addRow(event.target.closest("[data-rows]")).querySelector("input").focus();
  });

  document.addEventListener("dragover", (event) => {
    if (event.target.closest("[data-drop]")) event.preventDefault();
  });

  document.addEventListener("drop", async (event) => {
    const form = event.target.closest("[data-drop]");
    if (!form || !event.dataTransfer.files.length) return;
    event.preventDefault();
    const files = [...event.dataTransfer.files];
    const aimed = event.target.closest("textarea[data-form=text]");
    const code = aimed || form.querySelector("[name='payload.code']");
    const rows = form.querySelector("[data-rows$='.files']");
    if (code && (files.length === 1 || !rows)) {
      code.value = await files[0].text();
      return;
    }
    if (rows) for (const file of files) fillRow(rows, file.name, await file.text());
  });
})();
