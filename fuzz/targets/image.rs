//! Any bytes as an image on its way through tarresize, by one of its ways.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/tarresize/area.rs"]
mod area;
#[path = "../../tools/tarresize/args.rs"]
mod args;
#[path = "../../tools/tarresize/blur.rs"]
mod blur;
#[path = "../../tools/tarresize/color.rs"]
mod color;
#[path = "../../tools/tarresize/decode.rs"]
mod decode;
#[path = "../../tools/tarresize/encode.rs"]
mod encode;
#[path = "../../tools/tarresize/engine.rs"]
mod engine;
#[path = "../../tools/tarresize/exif.rs"]
mod exif;
#[path = "../../tools/tarresize/failure.rs"]
mod failure;
#[path = "../../tools/tarresize/fields.rs"]
mod fields;
#[path = "../../tools/tarresize/frames.rs"]
mod frames;
#[path = "../../tools/tarresize/head.rs"]
mod head;
#[path = "../../tools/tarresize/job.rs"]
mod job;
#[path = "../../tools/tarresize/jpeg.rs"]
mod jpeg;
#[path = "../../tools/tarresize/lanes.rs"]
mod lanes;
#[path = "../../tools/tarresize/markers.rs"]
mod markers;
#[path = "../../tools/tarresize/memory.rs"]
mod memory;
#[path = "../../tools/tarresize/options.rs"]
mod options;
#[path = "../../tools/tarresize/orient.rs"]
mod orient;
#[path = "../../tools/tarresize/picture.rs"]
mod picture;
#[path = "../../tools/tarresize/planes.rs"]
mod planes;
#[path = "../../tools/tarresize/resample.rs"]
mod resample;
#[path = "../../tools/tarresize/size.rs"]
mod size;
#[path = "../../tools/tarresize/turbo.rs"]
mod turbo;

use std::cell::RefCell;

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use tarpipe::run::memory::Budget;
use tarpipe::sample::{Member, Sample};

use engine::Engine;
use fields::Work;

/// The first byte of the input picks one.
const WAYS: [&str; 6] = [
    "-s 16 --exif",
    "-s 16 --allow-truncated --format png",
    "-m no --skip-reencode --format keep",
    "-s 24x8 -m border --format webp --icc keep",
    "-s 8 -m center_crop --up nearest --down lanczos --orient keep --icc ignore",
    "-s 20 --background black --color rgb --blur boxes",
];

/// More than an image of the size that is let through needs.
const MEMORY: u64 = 1 << 30;

fn work(flags: &str) -> Work {
    let args = args::Args::try_parse_from(["tarresize"].into_iter().chain(flags.split(' ')));
    args.expect("good flags").work(MEMORY).expect("flags that go together")
}

thread_local! {
    static GUARD: () = tarpipe::run::panics::install(); // a decoder that panics costs its image, as in the tool
    static WORKS: Vec<Work> = WAYS.map(work).into();
    static ENGINE: RefCell<Engine> = RefCell::new(Engine::new(1 << 20));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&way, bytes)) = bytes.split_first() else { return };
    // Pixels take time, and bombs of the size that is allowed take seconds.
    if head::read(bytes).is_ok_and(|head| head.size.area() > 1 << 16) {
        return;
    }
    let json = br#"{"boxes": [[0.1, 0.1, 0.5, 0.6]]}"#.to_vec();
    let members = vec![Member::new("jpg", bytes.to_vec()), Member::new("json", json)];
    let mut sample = Sample { key: "a".into(), mtime: 0, source: "fuzz".into(), members };
    GUARD.with(|()| ());
    WORKS.with(|works| {
        ENGINE.with_borrow_mut(|engine| {
            let turn = Budget::new(MEMORY).turns(std::iter::once(())).next().expect("a turn").0;
            let (images, _held) = works[usize::from(way) % works.len()].process(&mut sample, engine, turn);
            for done in images.iter().filter_map(|image| image.result.as_ref().ok()) {
                assert!(done.size.width > 0 && done.size.height > 0);
            }
        });
    });
});
