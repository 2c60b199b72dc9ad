//! Thumbnails in a terminal, with the best protocol it supports.

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

use crate::tarshow::args::Args;
use crate::tarshow::pictures::card::{CardMaker, SampleCard};
use crate::tarshow::reservoir::Reservoir;
use crate::tarshow::samples::{self, SelectedSamples};
use crate::tarshow::text::printable::one_line;
use crate::tarshow::text::text_output::{self, TextOutput};

/// The values of `--preview`.
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
            _ => bail!("unknown protocol (use auto, kitty, iterm, sixel or blocks)"),
        })
    }
}

/// Columns if stdout is not a terminal.
const COLUMNS: usize = 80;
/// The width of a half-block picture: a character is one pixel wide and two high.
const BLOCKS_WIDTH: u32 = 48;

/// Prints a thumbnail, the key and the caption of each sample.
pub fn show(args: &Args, protocol: Protocol) -> Result<Tally> {
    let on_terminal = text_output::is_terminal(&args.output);
    let protocol = match protocol {
        Protocol::Auto if on_terminal => terminal::detect(),
        Protocol::Auto => Protocol::Blocks,
        asked => asked,
    };
    let columns = Some(()).filter(|()| on_terminal).and_then(|()| text_output::terminal_columns()).unwrap_or(COLUMNS);
    let (width, height) = match protocol {
        Protocol::Blocks => (BLOCKS_WIDTH.min(columns as u32), BLOCKS_WIDTH),
        _ => (args.side, args.side),
    };
    let maker = CardMaker::new(args, width, height);
    let rich = terminal::has_true_colors();
    if args.random {
        return show_random(args, maker, move |card| render(card, protocol, rich, columns));
    }
    let mut output = TextOutput::create(&args.output)?;
    let selected = SelectedSamples::open_first(args, args.number.map(|n| n as u64))?;
    let work =
        move |numbered: &samples::NumberedSample| Ok(render(&maker.card(&numbered.sample), protocol, rich, columns));
    let tally =
        samples::prepare_with_choice(args, selected, Reservoir::new(0, 0), work, |text| output.write(text.as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

fn show_random(
    args: &Args,
    maker: CardMaker,
    render: impl Fn(&SampleCard) -> String + Send + Sync + 'static,
) -> Result<Tally> {
    let number = args.number.unwrap_or(0);
    let mut chosen: Vec<Option<(u64, String)>> = vec![None; number];
    let mut output = TextOutput::create(&args.output)?;
    let work = move |numbered: &samples::NumberedSample| {
        Ok(numbered.slot.map(|slot| (slot, numbered.number, render(&maker.card(&numbered.sample)))))
    };
    let tally = samples::prepare_with_choice(
        args,
        SelectedSamples::open(args)?,
        Reservoir::new(number, args.seed),
        work,
        |shown| {
            if let Some((slot, number, text)) = shown {
                chosen[slot] = Some((number, text));
            }
            Ok(())
        },
    )?;
    let mut chosen: Vec<(u64, String)> = chosen.into_iter().flatten().collect();
    chosen.sort_unstable();
    chosen.iter().try_for_each(|(_, text)| output.write(text.as_bytes()))?;
    output.finish()?;
    Ok(tally)
}

fn render(card: &SampleCard, protocol: Protocol, rich: bool, columns: usize) -> String {
    let mut text = match &card.picture {
        Err(why) => format!("[{why}]"),
        Ok(picture) => match protocol {
            Protocol::Kitty => kitty::encode(&png(picture)),
            Protocol::Iterm => iterm::encode(&png(picture)),
            Protocol::Sixel => sixel::encode(picture),
            Protocol::Blocks | Protocol::Auto => blocks::encode(picture, rich),
        },
    };
    text += &format!("\n{}\n", one_line(&card.key, columns));
    let caption = one_line(&card.short_caption(), columns);
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
