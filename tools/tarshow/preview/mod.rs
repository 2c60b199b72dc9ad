//! Thumbnails in a terminal, by whatever protocol it understands.

mod blocks;
mod iterm;
mod kitty;
mod sixel;
mod terminal;

use std::io::Cursor;
use std::str::FromStr;

use anyhow::{Result, bail};
use image::{ImageFormat, RgbImage};
use tarpipe::tally::Tally;

use crate::args::Args;
use crate::card::{Card, Maker};
use crate::flow::{self, Taken};
use crate::output::{self, Output};
use crate::readable::line;
use crate::reservoir::Reservoir;

/// How pictures are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Protocol {
    Auto,
    Kitty,
    Iterm,
    Sixel,
    Blocks,
}

impl FromStr for Protocol {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "auto" => Protocol::Auto,
            "kitty" => Protocol::Kitty,
            "iterm" => Protocol::Iterm,
            "sixel" => Protocol::Sixel,
            "blocks" => Protocol::Blocks,
            _ => bail!("not one of auto, kitty, iterm, sixel, blocks"),
        })
    }
}

/// Columns where there is no terminal to ask.
const COLUMNS: usize = 80;
/// Half blocks: a character is one pixel wide and two high.
const BLOCKS_WIDTH: u32 = 48;

/// Prints a thumbnail, the key and the caption of each sample.
pub fn show(args: &Args, protocol: Protocol) -> Result<Tally> {
    let on_terminal = output::is_terminal(&args.output);
    let protocol = match protocol {
        Protocol::Auto if on_terminal => terminal::detect(),
        Protocol::Auto => Protocol::Blocks,
        asked => asked,
    };
    let columns = Some(()).filter(|()| on_terminal).and_then(|()| output::terminal_columns()).unwrap_or(COLUMNS);
    let (width, height) = match protocol {
        Protocol::Blocks => (BLOCKS_WIDTH.min(columns as u32), BLOCKS_WIDTH),
        _ => (args.side, args.side),
    };
    let maker = Maker::new(args, width, height);
    let rich = terminal::has_true_colors();
    if args.random {
        return show_random(args, maker, move |card| render(card, protocol, rich, columns));
    }
    let mut output = Output::create(&args.output)?;
    let taken = Taken::open_first(args, args.number.map(|n| n as u64))?;
    let work = move |job: &flow::Job| Ok(render(&maker.card(&job.sample), protocol, rich, columns));
    let tally = flow::run(args, taken, Reservoir::new(0, 0), work, |text| output.write(text.as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

fn show_random(args: &Args, maker: Maker, render: impl Fn(&Card) -> String + Send + Sync + 'static) -> Result<Tally> {
    let number = args.number.unwrap_or(0);
    let mut chosen: Vec<Option<(u64, String)>> = vec![None; number];
    let mut output = Output::create(&args.output)?;
    let work = move |job: &flow::Job| Ok(job.place.map(|place| (place, job.number, render(&maker.card(&job.sample)))));
    let tally = flow::run(args, Taken::open(args)?, Reservoir::new(number, args.seed), work, |shown| {
        if let Some((place, number, text)) = shown {
            chosen[place] = Some((number, text));
        }
        Ok(())
    })?;
    let mut chosen: Vec<(u64, String)> = chosen.into_iter().flatten().collect();
    chosen.sort_unstable();
    chosen.iter().try_for_each(|(_, text)| output.write(text.as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

fn render(card: &Card, protocol: Protocol, rich: bool, columns: usize) -> String {
    let mut text = match &card.picture {
        Err(why) => format!("[{why}]"),
        Ok(picture) => match protocol {
            Protocol::Kitty => kitty::encode(&png(picture)),
            Protocol::Iterm => iterm::encode(&png(picture)),
            Protocol::Sixel => sixel::encode(picture),
            Protocol::Blocks | Protocol::Auto => blocks::encode(picture, rich),
        },
    };
    text += &format!("\n{}\n", line(&card.key, columns));
    let caption = line(&card.short_caption(), columns);
    if !caption.is_empty() {
        text += &format!("{caption}\n");
    }
    text + "\n"
}

fn png(picture: &RgbImage) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    // Writing to memory does not fail.
    _ = picture.write_to(&mut out, ImageFormat::Png);
    out.into_inner()
}
