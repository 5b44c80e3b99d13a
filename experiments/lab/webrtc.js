// One machine's end of a call between browsers: node webrtc.js PEER. It starts Chromium, with the page of webrtc.html and a camera that films what is
// made up here, and answers at port 8000:
//   GET /                  what the page is
//   GET /call              calls, and tells as JSON what came of the call when it is over
//   GET /watch             tells as JSON what came of the call that the other end has made
//   GET /order             what the page is to do: call, or answer an offer
//   POST /offer            of the page, for the other end's answer
//   POST /answer           of the other end, for the page's answer to its offer
//   POST /answered, /over, /failed      of the page: its answer, what came of the call, or why there is none
// It writes "ready" when the page has its camera and waits for orders.
const fs = require("fs");
const http = require("http");
const path = require("path");
const { spawn } = require("child_process");

const PORT = 8000;
const MEDIA_PORTS = "7000-7019";
const peer = process.argv[2];
const profile = path.resolve("profile");
const film = path.resolve("film.y4m");

// What requests wait for until another one brings it.
function expected() {
  let bring;
  const brought = new Promise((resolve) => { bring = resolve; });
  return { bring, brought };
}
const order = expected();
const answer = expected();
const outcome = expected();

const answers = {
  "GET /": () => fs.readFileSync(path.join(__dirname, "webrtc.html"), "utf8"),
  "GET /call": () => { order.bring({}); return outcome.brought; },
  "GET /watch": () => outcome.brought,
  "GET /order": async () => { console.log("ready"); return JSON.stringify(await order.brought); },
  "POST /offer": async (offer) => (await fetch(`http://${peer}:${PORT}/answer`, { method: "POST", body: offer })).text(),
  "POST /answer": (offer) => { order.bring({ offer: JSON.parse(offer) }); return answer.brought; },
  "POST /answered": (text) => { answer.bring(text); return ""; },
  "POST /over": (text) => { outcome.bring(`${text}\n`); return ""; },
  "POST /failed": (text) => fail(`the page has failed: ${text}`),
};

async function respond(request, response) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const respondent = answers[`${request.method} ${request.url}`];
  const text = respondent && await respondent(Buffer.concat(parts).toString());
  response.writeHead(respondent ? 200 : 404, { "Content-Type": request.url === "/" ? "text/html" : "application/json" }).end(text);
}

function fail(why) {
  console.error(why);
  process.exit(1);
}

// A smooth pattern of so many squares that joins itself at all edges.
function pattern(width, height, square, random) {
  const [columns, rows] = [width / square, height / square];
  const lights = Float32Array.from({ length: columns * rows }, random);
  const light = (column, row) => lights[(row % rows) * columns + column % columns];
  const at = (x, y) => {
    const [column, row] = [Math.floor(x / square), Math.floor(y / square)];
    const [right, down] = [x / square - column, y / square - row];
    const above = light(column, row) * (1 - right) + light(column + 1, row) * right;
    const below = light(column, row + 1) * (1 - right) + light(column + 1, row + 1) * right;
    return above * (1 - down) + below * down;
  };
  return Float32Array.from({ length: width * height }, (_, place) => at(place % width, Math.floor(place / width)));
}

// Two patterns that move through each other, grey and without end: an encoder takes for them all the bits that it may have.
function makeFilm(file) {
  const [width, height, frames, across, down] = [640, 360, 80, 8, 9];
  let state = 1;
  const random = () => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return state / 2 ** 32; };
  const [one, other] = [pattern(width, height, 20, random), pattern(width, height, 20, random)];
  const output = fs.openSync(file, "w");
  fs.writeSync(output, `YUV4MPEG2 W${width} H${height} F15:1 Ip A1:1 C420jpeg\n`);
  const picture = Buffer.alloc(width * height * 3 / 2, 128);
  for (let frame = 0; frame < frames; frame += 1) {
    for (let place = 0; place < width * height; place += 1) {
      const [x, y] = [place % width, Math.floor(place / width)];
      const lights = one[y * width + (x + across * frame) % width] + other[(y + down * frame) % height * width + x];
      picture[place] = 18 + 110 * lights;
    }
    fs.writeSync(output, "FRAME\n");
    fs.writeSync(output, picture);
  }
  fs.closeSync(output);
}

function startBrowser() {
  // The ports of media have no flag of their own.
  fs.mkdirSync(path.join(profile, "Default"), { recursive: true });
  fs.writeFileSync(path.join(profile, "Default", "Preferences"), JSON.stringify({ webrtc: { udp_port_range: MEDIA_PORTS } }));
  const browser = spawn("chromium", [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio", "--window-size=800,600",
    "--no-first-run", "--disable-quic", "--disable-sync", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
    // Candidates have addresses, and not names that mDNS alone knows.
    "--disable-features=WebRtcHideLocalIpsWithMdns,MediaRouter,OptimizationHints,Translate",
    "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", `--use-file-for-fake-video-capture=${film}`,
    "--autoplay-policy=no-user-gesture-required", `--user-data-dir=${profile}`, `http://127.0.0.1:${PORT}/`,
    // Nothing of it is outside this folder, whose whole path is too long for its sockets.
  ], { stdio: "inherit", env: { ...process.env, HOME: process.cwd(), XDG_RUNTIME_DIR: process.cwd(), TMPDIR: "." } });
  browser.on("error", (error) => fail(`chromium, of the package of that name, does not start: ${error.message}`));
  browser.on("exit", (code) => fail(`chromium has ended with code ${code}`));
}

makeFilm(film);
http.createServer((request, response) => { respond(request, response).catch((error) => fail(error.stack)); }).listen(PORT, startBrowser);
