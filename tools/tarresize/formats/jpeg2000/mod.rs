//! JPEG 2000, as files (JP2) and as bare codestreams, decoded with hayro-jpeg2000.

mod blocks;

use hayro_jpeg2000::{ColorSpace, DecodeSettings, Image};

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::jpeg2000::blocks::BlockLayout;
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::jpeg::DecodedPicture;
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// An opened file.
pub struct Jpeg2000<'a> {
    image: Image<'a>,
    blocks: BlockLayout,
    layout: PixelLayout,
    pub size: PixelSize,
    is_complete: bool,
}

impl<'a> Jpeg2000<'a> {
    /// Reads the headers of a file.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ImageFailure> {
        let settings = DecodeSettings { resolve_palette_indices: true, strict: false, target_resolution: None };
        let is_complete = codestream(bytes).is_some_and(|stream| stream.ends_with(&[0xff, 0xd9]));
        let image = Image::new(bytes, &settings).map_err(|err| match is_complete {
            true => ImageFailure::decode(err),
            false => ImageFailure::truncated("unexpected end of data"),
        })?;
        let blocks = BlockLayout::read(codestream(bytes).unwrap_or_default())?;
        let size = PixelSize::new(image.width(), image.height());
        if size.area() == 0 {
            return Err(ImageFailure::decode("width or height is 0"));
        }
        let layout = match (image.color_space().num_channels(), image.has_alpha()) {
            (1, false) => PixelLayout::Gray,
            (1, true) => PixelLayout::GrayAlpha,
            (3, false) => PixelLayout::Rgb,
            (3, true) => PixelLayout::Rgba,
            (4, false) => PixelLayout::Cmyk,
            (channels, _) => {
                let detail = format!("JPEG 2000 with {channels} colour channels");
                return Err(ImageFailure::new(ImageFailureCode::Unsupported, detail));
            }
        };
        Ok(Jpeg2000 { image, blocks, layout, size, is_complete })
    }

    pub fn icc(&self) -> Option<Vec<u8>> {
        match self.image.color_space() {
            ColorSpace::Icc { profile, .. } => Some(profile.clone()),
            _ => None,
        }
    }

    /// The memory that decoding needs besides the picture: coefficients and samples as 32-bit floats, and a record of
    /// each block.
    pub fn decoding_bytes(&self) -> u64 {
        const PER_SAMPLE: u64 = 24;
        self.size.area() * PER_SAMPLE * self.layout.channels() as u64 + self.blocks.record_bytes() + (4 << 20)
    }

    /// Decodes all pixels. A codestream without its end is damaged, even though the decoder fills in what is missing.
    pub fn decode(&self) -> Result<DecodedPicture, ImageFailure> {
        let damage = (!self.is_complete).then(|| ImageFailure::truncated("JPEG 2000 data without its end"));
        let data = self.image.decode().map_err(|err| damage.clone().unwrap_or_else(|| ImageFailure::decode(err)))?;
        let picture = Picture { size: self.size, layout: self.layout, data };
        if picture.data.len() != Picture::new(PixelSize::new(1, 1), self.layout).data.len() * self.size.area() as usize
        {
            return Err(ImageFailure::decode("JPEG 2000 pixels that do not match the header"));
        }
        Ok(DecodedPicture { picture, damage })
    }
}

/// The codestream: the whole file, or the last whole box that contains one, which is what the decoder takes.
fn codestream(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(&[0xff, 0x4f]) {
        return Some(bytes);
    }
    let (mut rest, mut found) = (bytes, None);
    while let Some((kind, body, behind)) = next_box(rest) {
        if kind == b"jp2c" {
            found = Some(body);
        }
        rest = behind;
    }
    found
}

/// The type and contents of the first box, and what follows it.
fn next_box(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (len, kind) = (u32::from_be_bytes(*bytes.first_chunk::<4>()?), bytes.get(4..8)?);
    let (header, len) = match len {
        0 => (8, bytes.len()),
        1 => (16, usize::try_from(u64::from_be_bytes(bytes.get(8..16)?.try_into().ok()?)).ok()?),
        len => (8, len as usize),
    };
    Some((kind, bytes.get(header..len)?, &bytes[len..]))
}
