//! Headless Chromium on a leash: its debugging protocol over two pipes, JSON with a NUL behind each message.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{TempDir, dir};

/// A browser with one page.
pub struct Browser {
    child: Child,
    requests: File,
    answers: BufReader<File>,
    session: Option<String>,
    last: u64,
    /// What the page did without being asked: requests, messages, errors.
    pub events: Vec<Value>,
    _home: TempDir,
}

impl Browser {
    /// Starts the browser and opens a page from disk.
    pub fn open(page: &Path) -> Self {
        let home = dir();
        let script = "mkfifo requests answers && exec chromium --headless --remote-debugging-pipe --no-sandbox --disable-gpu \
            --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync \
            --hide-scrollbars --force-device-scale-factor=1 --user-data-dir=profile about:blank 3<requests 4>answers";
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        while !home.path().join("answers").exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let requests = File::options().write(true).open(home.path().join("requests")).unwrap();
        let answers = BufReader::new(File::open(home.path().join("answers")).unwrap());
        let mut browser = Browser { child, requests, answers, session: None, last: 0, events: Vec::new(), _home: home };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        browser.wait_for("Page.loadEventFired");
        browser
    }

    /// Calls a method and gives its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.requests.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn wait_for(&mut self, event: &str) {
        while self.events.iter().all(|seen| seen["method"] != event) {
            let message = self.read();
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    /// The value of an expression in the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Presses a key and lets it go.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            "/" => "/",
            _ => "",
        };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let mut params = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            params["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", params);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}));
    }

    /// Types into what has the focus.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Makes the window so wide, in a light or a dark room.
    pub fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// A picture of the window, or of the whole page, as PNG.
    pub fn screenshot(&mut self, whole: bool) -> Vec<u8> {
        let params = json!({"format": "png", "captureBeyondViewport": whole});
        let data = self.call("Page.captureScreenshot", params)["data"].as_str().unwrap().to_owned();
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
