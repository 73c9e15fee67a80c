"use strict";
// The filter of cases, which needs scripts and is hidden without them.
const form = document.querySelector("form.filter");
const [text, changed] = form.querySelectorAll("input");
const all = [...document.querySelectorAll(".trend")].map(trend => [trend, trend.querySelector("h3").textContent.toLowerCase()]);
function filter() {
  const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const [trend, name] of all) {
    trend.hidden = !(wanted.every(word => name.includes(word)) && (!changed.checked || trend.dataset.changed !== "0"));
    shown += !trend.hidden;
  }
  for (const section of document.querySelectorAll(".machine-cases"))
    section.hidden = !section.querySelector(".trend:not([hidden])");
  form.querySelector("output").value = `${shown} of ${all.length} trends`;
}
form.hidden = all.length < 2;
form.addEventListener("input", filter);
form.addEventListener("submit", event => event.preventDefault());
for (const link of document.querySelectorAll(".changes a.case"))
  link.addEventListener("click", () => { text.value = ""; changed.checked = false; filter(); });
filter();
