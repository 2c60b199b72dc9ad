//! The page: its numbers, its bytes, and how it behaves in a real browser.

use std::path::{Path, PathBuf};

use image::RgbImage;
use serde_json::Value;

use super::browser::Browser;
use super::{gallery, jpeg, photo};
use crate::support::{Archive, dir, list, run, words};

const ATTACK: &str =
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>\"'><svg onload=window.hacked=3>";

/// Samples with an attack in every place that strangers can write to.
fn hostile() -> Archive {
    let facts = serde_json::json!({"k": ATTACK, ATTACK: 1}).to_string();
    (0..40).fold(gallery(80), |archive, i| {
        let key = format!("<img src=x onerror=hacked=4>{i:02}");
        let archive = archive.file(&format!("{key}.jpg"), &jpeg(&photo(120, 90 + i)));
        let archive = archive.file(&format!("{key}.txt"), format!("{ATTACK} {i}\u{202e}").as_bytes());
        archive.file(&format!("{key}.<b>.json"), facts.as_bytes())
    })
}

fn report() -> String {
    let row = |i: u32| {
        let failed = i.is_multiple_of(4);
        let code = if i.is_multiple_of(8) { "http_404" } else { "<script>window.hacked=5</script>" };
        let (status, code) = if failed { ("failed", code) } else { ("success", "") };
        format!("k{i},{status},{code},{},{}\n", if failed { 0 } else { 1000 * i }, 10 + i)
    };
    "key,status,code,bytes,milliseconds\n".to_owned() + &(0..400).map(row).collect::<String>()
}

fn make(folder: &Path) -> PathBuf {
    std::fs::write(folder.join("a.tar"), hostile().whole()).unwrap();
    std::fs::write(folder.join("fetch.csv"), report()).unwrap();
    words("tarshow", "--html page.html --report fetch.csv -n 30 a.tar").cwd(folder).ok();
    folder.join("page.html")
}

#[test]
fn a_page_counts_what_is_there() {
    let folder = dir();
    let html = std::fs::read_to_string(make(folder.path())).unwrap();
    for part in [
        "<dt>Samples</dt><dd>120</dd>",
        "<dt>Images</dt><dd>120</dd>",
        "<th scope=\"row\">txt</th><td>text</td><td class=\"n\">104</td><td class=\"n warn\">16 <small>13.3 %</small></td>",
        "400 rows: 300 succeeded (75.0 %), 100 failed",
        "<th scope=\"row\">http_404</th><td class=\"n\">50</td><td class=\"n\">12.5 %</td>",
        "30 of 120 samples, chosen at random.",
        "<bdi>train/0004</bdi>",
    ] {
        assert!(html.contains(part), "no {part}");
    }
    for title in [
        "Image width",
        "Image height",
        "Aspect ratio",
        "Image bytes",
        "Sample bytes",
        "Caption length",
        "Throughput",
        "Failures",
    ] {
        assert!(html.contains(&format!("<h3>{title}</h3>")), "no chart {title}");
    }
    assert_eq!(html.matches("<img src=\"data:image/jpeg;base64,").count(), 30);
    assert!(
        !html.contains("<script>window") && !html.contains("onerror=window.hacked=2>\"") && !html.contains('\u{202e}')
    );
}

#[test]
fn a_page_is_the_same_for_the_same_seed_and_any_threads() {
    let archive = gallery(150).whole();
    let made = |flags: &str| words("tarshow", &format!("--html - -n 20 {flags}")).stdin(archive.clone()).ok();
    let page = made("-p 1");
    assert!(page == made("-p 4") && page == made("--seed 0"));
    assert!(page != made("--seed 1"));
}

#[test]
fn nothing_to_show_is_a_page_too() {
    let empty = words("tarshow", "--html -").stdin(Archive::new().whole()).ok();
    let text = String::from_utf8(empty).unwrap();
    assert!(text.contains("<dt>Samples</dt><dd>0</dd>") && !text.contains("<h2"), "{text}");
    let mixed = Archive::new()
        .file("a.cls", b"1")
        .file("../b.cls", b"1")
        .file("c.jpg", b"\xff\xd8\xff\xe0")
        .file("README", b"");
    let done = words("tarshow", "--html - -n 0").stdin(mixed.whole()).done().status(0);
    let done = done.stderr("tarshow: 2 samples; failed 1 (1 name_parent); dropped 1 (1 no_field)");
    let text = done.stdout_text();
    assert!(text.contains("<dt>Unreadable images</dt><dd>1</dd>") && text.contains("<dt>Failed</dt><dd>1</dd>"));
    assert!(!text.contains("id=\"gallery\""));
}

#[test]
fn a_page_is_whole_or_not_there() {
    let folder = dir();
    let whole = gallery(20).whole();
    words("tarshow", "--html p.html").cwd(folder.path()).stdin(&whole[..9000]).done().status(1);
    assert!(list(folder.path()).is_empty());
    let missing = run("tarshow", ["--html", "p.html", "--report", "none.csv"]).cwd(folder.path()).stdin(whole).done();
    missing.status(1).stderr_has("tarshow: none.csv: ");
    assert!(list(folder.path()).is_empty());
}

#[test]
fn a_report_of_any_format_is_read() {
    let folder = dir();
    let lines: String = (0..10)
        .map(|i| {
            format!(
                "{{\"key\":\"{i}\",\"status\":\"{}\",\"code\":\"decode\"}}\n",
                if i < 3 { "failed" } else { "success" }
            )
        })
        .collect();
    std::fs::write(folder.path().join("r.jsonl"), lines).unwrap();
    let page = words("tarshow", "--html - --report r.jsonl").cwd(folder.path()).stdin(gallery(1).whole()).ok();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("10 rows: 7 succeeded (70.0 %), 3 failed"));
    assert!(page.contains("<th scope=\"row\">decode</th><td class=\"n\">3</td>"));
    assert!(!page.contains("<h3>Throughput</h3>"), "no row has a time");
}

#[test]
fn in_a_browser_no_injected_code_runs_and_nothing_is_fetched() {
    let folder = dir();
    let page = make(folder.path());
    let mut browser = Browser::open(&page);
    assert_eq!(browser.eval("window.hacked"), Value::Null);
    assert_eq!(browser.eval("document.scripts.length"), 1);
    assert_eq!(browser.eval("document.querySelectorAll('.card').length"), 30);
    assert_eq!(browser.eval("document.querySelectorAll('[onerror],[onload]').length"), 0);
    // The policy holds even for what would slip into the page.
    browser.eval(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 6'; document.body.append(s)",
    );
    assert_eq!(browser.eval("window.hacked"), Value::Null);
    let asked: Vec<&Value> =
        browser.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent").collect();
    let urls: Vec<&str> = asked.iter().filter_map(|event| event["params"]["request"]["url"].as_str()).collect();
    assert!(
        urls.iter().all(|url| url.starts_with("file://") && url.ends_with("page.html") || url.starts_with("data:")),
        "{urls:?}"
    );
    let thrown: Vec<&Value> =
        browser.events.iter().filter(|event| event["method"] == "Runtime.exceptionThrown").collect();
    assert!(thrown.is_empty(), "{thrown:?}");
    let blocked = browser.events.iter().filter(|event| event["method"] == "Log.entryAdded").count();
    assert_eq!(blocked, 1, "the one script that was planted here");
}

#[test]
fn in_a_browser_the_keyboard_is_enough() {
    let folder = dir();
    let mut browser = Browser::open(&make(folder.path()));
    let visible = "document.querySelectorAll('.card:not([hidden])').length";
    browser.press("/");
    assert_eq!(browser.eval("document.activeElement.id"), "search");
    browser.type_text("CAPTION train/00");
    let found = browser.eval(visible).as_u64().unwrap();
    assert!((2..20).contains(&found), "{found}");
    assert_eq!(browser.eval("document.getElementById('found').textContent"), format!("{found} shown"));
    browser.press("Tab");
    assert_eq!(browser.eval("document.activeElement.className"), "open");
    browser.press("Enter");
    assert_eq!(browser.eval("document.getElementById('detail').open"), true);
    let key = "document.getElementById('detail-key').textContent";
    let first = browser.eval(key);
    assert!(first.as_str().unwrap().starts_with("train/00"), "{first}");
    browser.press("ArrowRight");
    assert_ne!(browser.eval(key), first);
    browser.press("ArrowLeft");
    assert_eq!(browser.eval(key), first);
    assert!(
        browser.eval("document.getElementById('detail-body').textContent").as_str().unwrap().contains("caption number")
    );
    browser.press("Escape");
    assert_eq!(browser.eval("document.getElementById('detail').open"), false);
    assert_eq!(browser.eval("document.activeElement.querySelector('.key').textContent"), first);
    browser.eval("search.select()");
    browser.press("/");
    browser.eval("search.value = 'no such thing'; search.dispatchEvent(new Event('input'))");
    assert_eq!(browser.eval(visible), 0);
    assert_eq!(browser.eval("document.getElementById('nothing').hidden"), false);
}

#[test]
fn in_a_browser_it_is_readable_in_any_light_and_width() {
    let folder = dir();
    let mut browser = Browser::open(&make(folder.path()));
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tarshow");
    std::fs::create_dir_all(&kept).unwrap();
    for (name, width, scheme) in
        [("light", 1200, "light"), ("dark", 1200, "dark"), ("narrow", 390, "light"), ("narrow-dark", 390, "dark")]
    {
        browser.look(width, 1000, scheme);
        let over = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(over, 0, "{name}: the page is wider than its window");
        let ratio = browser.eval(CONTRAST).as_f64().unwrap();
        assert!(ratio >= 4.5, "{name}: contrast {ratio}");
        let shot = browser.screenshot(true);
        let image: RgbImage = image::load_from_memory(&shot).unwrap().to_rgb8();
        let bright = image.get_pixel(2, 2).0[0] > 128;
        assert_eq!(bright, scheme == "light", "{name}");
        std::fs::write(kept.join(format!("{name}.png")), shot).unwrap();
    }
    browser.look(1200, 1000, "light");
    browser.eval("document.querySelector('.open').click()");
    std::fs::write(kept.join("detail.png"), browser.screenshot(false)).unwrap();
}

/// The least contrast, as WCAG has it, of text in the page against what is behind it.
const CONTRAST: &str = r#"(() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!/, 0\)$|transparent/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const ratios = [...document.querySelectorAll("h1, h2, h3, p, th, td, dt, dd, label, output, .key, .caption, text")].map((node) => {
    const style = getComputedStyle(node);
    const [a, b] = [light(node.tagName === "text" ? style.fill : style.color), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
  return Math.min(...ratios);
})()"#;
