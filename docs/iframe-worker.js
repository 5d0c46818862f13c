// Has the site's search work from a folder, too: browsers start no worker from a file, so what it would run is run in a
// frame that nobody sees. Where there is a server, nothing is changed.
"use strict";

if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.loaded = new Promise((resolve) => {
        inside.addEventListener("load", resolve);
        this.frame.addEventListener("load", resolve);
      });
      addEventListener("message", (event) => {
        if (event.source !== inside) return;
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        if (this.onmessage) this.onmessage(event);
      });
      inside.document.open();
      inside.document.write(`<html><body><script>
        postMessage = (data) => parent.postMessage(data, "*");
        importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((resolve) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = resolve;
          document.body.append(script);
        })), Promise.resolve());
      <\/script><script src="${url}"><\/script></body></html>`);
      inside.document.close();
    }

    postMessage(data) {
      this.loaded.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }))
      );
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
}
