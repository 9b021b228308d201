// The namespace of this page. The tabs of a browser share the cookie that names one, so another tab may have changed it: a
// page names its own in all that it asks.

const { namespace, bound } = document.documentElement.dataset;

/** Where the page asks: always in its own namespace. */
export function here(address) {
  const url = new URL(address, location.href);
  if (namespace) url.searchParams.set("namespace", namespace);
  return url;
}

/** Where the page leads: the address names the namespace if the browser would enter another one without it. */
export function to(address) {
  return !namespace || bound === "true" || chosen() === namespace ? new URL(address, location.href) : here(address);
}

/** Links and forms keep the namespace. */
export function startNamespace() {
  for (const kind of ["click", "auxclick", "contextmenu"]) {
    document.addEventListener(kind, ({ target }) => {
      const link = target.closest?.("a[href]");
      if (link && link.origin === location.origin && !link.getAttribute("href").startsWith("#")) link.href = to(link.href);
    }, true);
  }
  document.addEventListener("submit", ({ target }) => {
    if (target.method !== "get") return;
    target.querySelector("input[type=hidden][name=namespace]")?.remove();
    const named = to(target.action).searchParams.get("namespace");
    if (!named) return;
    const field = document.createElement("input");
    Object.assign(field, { type: "hidden", name: "namespace", value: named });
    target.append(field);
  }, true);
}

/** The namespace of a request that names none. */
function chosen() {
  const value = document.cookie.split("; ").find((pair) => pair.startsWith("tenure-namespace="))?.split("=")[1];
  try {
    return value ? decodeURIComponent(value) : "default";
  } catch {
    return null;
  }
}
