// The secret of the link is in the fragment, which no browser sends and no log shows. It leaves the address bar at once. The button keeps
// programs that open links, such as mail scanners, from using the link up.
const link = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
const state = document.getElementById("state");
const button = document.getElementById("sign-in");

if (link === "") {
  state.textContent = "Run “toold login” and open the link that it prints.";
} else {
  state.textContent = "The link works once.";
  button.hidden = false;
}

button.addEventListener("click", async () => {
  button.disabled = true;
  const response = await fetch("/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ link }) });
  if (response.ok) {
    new BroadcastChannel("toold").postMessage("signed in"); // open pages of the console are of somebody else, perhaps
    location.replace("/");
    return;
  }
  const { message } = await response.json();
  state.textContent = message;
});
