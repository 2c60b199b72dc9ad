//! Contact sheets and previews.

use image::{Rgb, RgbImage};

use super::{gallery, jpeg, photo, png};
use crate::support::{Archive, dir, list, run, words};

fn sheet(flags: &str, archive: Archive) -> RgbImage {
    let folder = dir();
    let flags = format!("--sheet s.png {flags}");
    words("tarshow", &flags).cwd(folder.path()).stdin(archive.whole()).ok();
    assert_eq!(list(folder.path()), ["s.png"]);
    image::open(folder.path().join("s.png")).unwrap().to_rgb8()
}

#[test]
fn a_sheet_has_the_picture_and_text_under_it() {
    let red = RgbImage::from_pixel(400, 200, Rgb([200, 0, 0]));
    let archive = |caption: &[u8]| Archive::new().file("key.jpg", &jpeg(&red)).file("key.txt", caption);
    let plain = sheet("", archive(b"a caption"));
    assert_eq!(plain.dimensions(), (24 + 192 + 24, 24 + 192 + 6 + 3 * 18 + 24));
    // 192 x 96, standing on the line of its text.
    assert_eq!(plain.get_pixel(24, 24), &Rgb([255; 3]));
    let Rgb([r, g, b]) = *plain.get_pixel(24 + 100, 24 + 192 - 50);
    assert!(r > 190 && g < 20 && b < 20, "{r} {g} {b}");
    let ink = |sheet: &RgbImage, top: u32| {
        (24..240)
            .flat_map(|x| (top..top + 16).map(move |y| (x, y)))
            .filter(|&(x, y)| sheet.get_pixel(x, y).0[0] < 200)
            .count()
    };
    let (key, first, second) = (24 + 192 + 6, 24 + 192 + 24, 24 + 192 + 42);
    assert!(ink(&plain, key) > 20 && ink(&plain, first) > 50 && ink(&plain, second) == 0);
    // Other scripts leave boxes, marks without width nothing, and a long caption has two lines.
    assert!(ink(&sheet("", archive("猫 кот".as_bytes())), first) > 40);
    assert!(ink(&sheet("", archive(&b"word ".repeat(50))), second) > 50);
    assert_eq!(ink(&sheet("", archive("\u{301}\u{200b}".as_bytes())), first), 0);
}

#[test]
fn a_sheet_is_the_same_for_the_same_seed_and_any_threads() {
    let folder = dir();
    std::fs::write(folder.path().join("a.tar"), gallery(60).whole()).unwrap();
    let made = |flags: &str| {
        words("tarshow", &format!("--sheet s.jpg -n 12 {flags} a.tar")).cwd(folder.path()).ok();
        std::fs::read(folder.path().join("s.jpg")).unwrap()
    };
    let random = made("--random --seed 3 -p 1");
    assert!(random.starts_with(&[0xff, 0xd8]));
    assert!(random == made("--random --seed 3 -p 4"));
    assert!(random != made("--random --seed 4"));
    assert!(random != made(""));
    assert!(made("--select true") == made("--slice 0:12"));
}

#[test]
fn pictures_that_cannot_be_drawn_have_their_place() {
    let mut bomb = png(&photo(4, 4));
    bomb[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let sum = crc32(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&sum.to_be_bytes());
    let whole = jpeg(&photo(300, 200));
    let archive = Archive::new()
        .file("a.jpg", b"\xff\xd8\xff\xe0 not really")
        .file("b.png", &bomb)
        .file("c.txt", b"no picture at all")
        .file("d.jpg", &whole[..whole.len() / 3])
        .file("e.jpg", b"");
    let drawn = sheet("--side 64", archive);
    assert!(drawn.width() > 64 * 2);
    assert!(drawn.pixels().any(|pixel| pixel.0 == [240; 3]));
}

/// As PNG sums its chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

#[test]
fn the_picture_and_the_caption_can_be_chosen() {
    let (red, blue) = (RgbImage::from_pixel(64, 64, Rgb([255, 0, 0])), RgbImage::from_pixel(64, 64, Rgb([0, 0, 255])));
    let archive = || {
        Archive::new().file("a.red.png", &png(&red)).file("a.blue.png", &png(&blue)).file("a.json", b"{\"t\":\"x\"}")
    };
    let at = |sheet: &RgbImage| *sheet.get_pixel(24 + 32, 24 + 192 - 32);
    assert_eq!(at(&sheet("", archive())), Rgb([255, 0, 0]));
    assert_eq!(at(&sheet("--image none;blue.png", archive())), Rgb([0, 0, 255]));
    assert!(sheet("", archive()) != sheet("--caption json.t", archive()));
}

#[test]
fn a_sheet_of_nothing_is_small_and_white() {
    let blank = sheet("", Archive::new());
    assert!(blank.width() < 300 && blank.pixels().all(|pixel| pixel.0 == [255; 3]));
}

#[test]
fn a_sheet_that_cannot_be_written_fails() {
    let folder = dir();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let done = words("tarshow", "--sheet file/s.jpg").cwd(folder.path()).stdin(gallery(1).whole()).done().status(1);
    done.stderr_has("tarshow: file/s.jpg: ");
    let whole = gallery(9).whole();
    let cut = words("tarshow", "--sheet s.jpg").cwd(folder.path()).stdin(&whole[..5000]).done().status(1);
    cut.stderr_has("tarshow: stdin: byte ");
    assert_eq!(list(folder.path()), ["file"]);
}

#[test]
fn pictures_one_pixel_wide_or_high_are_drawn() {
    let sizes = [(1, 1), (1, 2), (1, 7), (1, 500), (2, 1), (7, 1), (500, 1), (2, 2), (3000, 1), (1, 3000), (5000, 3)];
    for (width, height) in sizes {
        let image = RgbImage::from_pixel(width, height, Rgb([200, 10, 30]));
        let archive = || Archive::new().file("k.png", &png(&image)).file("k.txt", b"the caption");
        for protocol in ["kitty", "iterm", "sixel", "blocks"] {
            let text = preview_of(protocol, archive());
            assert!(!text.starts_with('['), "{width}x{height} {protocol}: {text:?}");
        }
        let drawn = sheet("", archive());
        assert!(drawn.pixels().any(|pixel| pixel.0 == [200, 10, 30]), "{width}x{height}");
        let page = page_of(archive());
        assert!(page.contains("<img src=\"data:image/jpeg;base64,"), "{width}x{height}");
    }
}

fn page_of(archive: Archive) -> String {
    let folder = dir();
    words("tarshow", "--html page.html").cwd(folder.path()).stdin(archive.whole()).ok();
    std::fs::read_to_string(folder.path().join("page.html")).unwrap()
}

#[test]
fn a_column_of_sixels_has_its_colours() {
    let column = RgbImage::from_fn(1, 7, |_, y| if y < 6 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) });
    let text = preview_of("sixel", Archive::new().file("k.png", &png(&column)).file("k.txt", b"the caption"));
    assert!(text.contains("\"1;1;1;7#") && text.contains("#210~$-#5@$-"), "{text:?}");
}

#[test]
fn pictures_share_the_memory_and_one_that_needs_more_is_not_drawn() {
    let large = png(&RgbImage::new(2000, 1500));
    let archive = || {
        (0..6)
            .fold(Archive::new(), |archive, i| archive.file(&format!("{i}.png"), &large))
            .file("z.png", &png(&photo(9, 9)))
    };
    // 9 MB of pixels are counted four times.
    let tight = sheet("-p 4 --memory 37M --side 64", archive());
    assert!(tight == sheet("-p 1 --side 64", archive()));
    assert!(tight.pixels().any(|pixel| pixel.0 == [0; 3]));
    let low = sheet("-p 4 --memory 30M --side 64", archive());
    assert!(!low.pixels().any(|pixel| pixel.0 == [0; 3]));
    assert!(low == sheet("-p 1 --memory 30M --side 64", archive()));
    words("tarshow", "--list --memory 1G").done().status(2);
}

fn preview(protocol: &str) -> String {
    preview_of(protocol, Archive::new().file("k.png", &png(&photo(300, 150))).file("k.txt", b"the caption"))
}

fn preview_of(protocol: &str, archive: Archive) -> String {
    let out =
        run("tarshow", [format!("--preview={protocol}")]).env("COLORTERM", "truecolor").stdin(archive.whole()).ok();
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("\nk\nthe caption\n\n"), "{text:?}");
    text
}

#[test]
fn a_preview_speaks_what_the_terminal_understands() {
    assert!(preview("kitty").starts_with("\x1b_Ga=T,f=100,q=2,m="));
    assert!(preview("iterm").starts_with("\x1b]1337;File=inline=1;size="));
    assert!(preview("sixel").starts_with("\x1bP0;1q\"1;1;192;96#0;2;0;0;0"));
    let blocks = preview("blocks");
    assert!(blocks.starts_with("\x1b[38;2;") && blocks.matches('▀').count() == 48 * 12, "{blocks:?}");
}

/// In a pseudo-terminal, which script(1) makes; nobody answers the question for sixel there.
#[test]
fn the_terminal_is_found_out() {
    let folder = dir();
    std::fs::write(folder.path().join("a.tar"), gallery(3).whole()).unwrap();
    let seen = |env: &str| {
        let script = format!(
            "env -u TMUX -u TERM_PROGRAM -u LC_TERMINAL {env} script -qec 'tarshow --preview -n 1 a.tar' /dev/null"
        );
        crate::support::bash(&script).cwd(folder.path()).done().status(0).stdout()
    };
    let has = |bytes: &[u8], part: &str| String::from_utf8_lossy(bytes).contains(part);
    assert!(has(&seen("TERM=xterm-kitty"), "\x1b_Ga=T"));
    assert!(has(&seen("TERM=xterm TERM_PROGRAM=iTerm.app"), "\x1b]1337;File="));
    assert!(has(&seen("TERM=xterm COLORTERM=truecolor"), "▀"));
    // The environment of a multiplexer is that of the terminal it was started in.
    assert!(has(&seen("TERM=tmux-256color TERM_PROGRAM=iTerm.app"), "▀"));
}

#[test]
fn a_preview_of_some_at_random_keeps_their_order() {
    let keys = |flags: &str| -> Vec<String> {
        let out = words("tarshow", &format!("--preview=blocks {flags}")).stdin(gallery(40).whole()).ok();
        String::from_utf8(out).unwrap().lines().filter(|line| line.starts_with("train/")).map(str::to_owned).collect()
    };
    assert_eq!(keys("-n 2"), ["train/0000", "train/0001"]);
    let chosen = keys("-n 6 --random --seed 1");
    assert!(chosen.len() == 6 && chosen.is_sorted() && chosen != keys("-n 6"), "{chosen:?}");
    assert_eq!(chosen, keys("-n 6 --random --seed 1 -p 1"));
}
