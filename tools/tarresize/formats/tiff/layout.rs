//! What the tags of a TIFF say about its pixels, checked before any is decoded.

use image::metadata::Orientation;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::header::MAX_PIXELS;
use crate::tarresize::formats::tiff::directory::Directory;
use crate::tarresize::geometry::PixelSize;

/// How a sample is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    Unsigned,
    Signed,
    Float,
}

/// How a chunk is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TiffCompression {
    None,
    /// CCITT modified Huffman.
    Rle,
    /// CCITT Group 3; rows may refer to the row above.
    Group3 {
        two_dimensional: bool,
    },
    Group4,
    Lzw,
    Jpeg,
    Deflate,
    PackBits,
}

/// What the samples mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Photometric {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    Palette,
    Cmyk,
    YCbCr,
    /// `signed` if a and b are two's complement.
    Lab {
        signed: bool,
    },
}

/// The fourth sample of RGB, or the second of gray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpha {
    Straight,
    Premultiplied,
}

/// Everything about the pixels of a TIFF except their values.
#[derive(Clone, Debug)]
pub struct TiffLayout<'a> {
    pub size: PixelSize,
    pub samples: usize,
    pub bits: u32,
    pub kind: SampleKind,
    pub photometric: Photometric,
    pub alpha: Option<Alpha>,
    pub compression: TiffCompression,
    /// 1: none, 2: differences of samples, 3: differences of the bytes of floats.
    pub predictor: u64,
    /// Whether each sample has chunks of its own.
    pub is_planar: bool,
    pub is_tiled: bool,
    /// Whether the lowest bit of each byte comes first.
    pub low_bits_first: bool,
    pub little_endian: bool,
    /// The size of a tile or strip; the last strip may be shorter.
    pub chunk: PixelSize,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    pub palette: Vec<[u8; 3]>,
    /// Luma samples per chroma sample of YCbCr.
    pub subsampling: (u32, u32),
    pub jpeg_tables: Option<&'a [u8]>,
    pub orientation: Orientation,
    pub icc: Option<Vec<u8>>,
}

impl<'a> TiffLayout<'a> {
    /// Reads and checks the tags of the first directory.
    pub fn read(file: &'a [u8]) -> Result<Self, ImageFailure> {
        let tags = Directory::read(file)?;
        let size = PixelSize::new(side(&tags, 256)?, side(&tags, 257)?);
        let samples = usize::try_from(tags.number_or(277, 1)?).unwrap_or(usize::MAX);
        let compression = compression(&tags)?;
        let photometric = photometric(&tags, samples)?;
        let is_tiled = tags.bytes(322)?.is_some();
        let chunk = if is_tiled { PixelSize::new(side(&tags, 322)?, side(&tags, 323)?) } else { strip(&tags, size)? };
        let (offsets, lengths) = if is_tiled { (324, 325) } else { (273, 279) };
        let (offsets, lengths) = (tags.numbers(offsets)?.unwrap_or_default(), tags.numbers(lengths)?);
        let subsampling = tags.numbers(530)?.filter(|pair| pair.len() >= 2).map_or((2, 2), |pair| (pair[0], pair[1]));
        let orientation = u8::try_from(tags.number_or(274, 1)?).ok().and_then(Orientation::from_exif);
        let layout = TiffLayout {
            size,
            samples,
            bits: bits(&tags)?,
            kind: sample_kind(&tags)?,
            photometric,
            alpha: alpha(&tags, samples, photometric)?,
            compression,
            predictor: tags.number_or(317, 1)?,
            is_planar: tags.number_or(284, 1)? == 2 && samples > 1,
            is_tiled,
            low_bits_first: tags.number_or(266, 1)? == 2,
            little_endian: tags.is_little_endian(),
            chunk,
            // A file without lengths is uncompressed, or its chunks reach up to the end.
            lengths: lengths.unwrap_or_else(|| vec![u64::MAX; offsets.len()]),
            offsets,
            palette: palette(&tags)?,
            subsampling: (subsampling.0 as u32, subsampling.1 as u32),
            jpeg_tables: tags.bytes(347)?,
            orientation: orientation.unwrap_or(Orientation::NoTransforms),
            icc: tags.bytes(34_675)?.map(<[u8]>::to_vec),
        };
        layout.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<(), ImageFailure> {
        let is_jpeg = self.compression == TiffCompression::Jpeg;
        let valid_bits = match self.kind {
            SampleKind::Float => matches!(self.bits, 16 | 32 | 64),
            _ => matches!(self.bits, 1..=16 | 24 | 32 | 64),
        };
        let is_fax =
            matches!(self.compression, TiffCompression::Rle | TiffCompression::Group3 { .. } | TiffCompression::Group4);
        let has_units = self.photometric == Photometric::YCbCr && !is_jpeg;
        let (across, down) = self.subsampling;
        let is_unsupported = !valid_bits
            || !(1..=16).contains(&self.samples)
            || (is_jpeg && self.bits != 8)
            || (is_fax && (self.bits != 1 || (self.samples != 1 && !self.is_planar)))
            || (has_units && (self.bits != 8 || self.samples != 3 || self.is_planar || self.predictor != 1))
            || (has_units && !(matches!(across, 1 | 2 | 4) && matches!(down, 1 | 2 | 4)))
            || (self.photometric == Photometric::Palette && self.bits > 8)
            || (matches!(self.photometric, Photometric::Lab { .. }) && self.bits != 8)
            || !(1..=3).contains(&self.predictor)
            || (self.predictor == 3 && self.kind != SampleKind::Float);
        if is_unsupported {
            let TiffLayout { samples, bits, kind, .. } = self;
            let detail = format!("TIFF with {samples} {kind:?} samples of {bits} bits and this compression");
            return Err(ImageFailure::new(ImageFailureCode::Unsupported, detail));
        }
        if self.chunk.area() > MAX_PIXELS {
            let PixelSize { width, height } = self.chunk;
            return Err(ImageFailure::new(ImageFailureCode::Bomb, format!("tiles of {width}x{height} pixels")));
        }
        if self.offsets.len().min(self.lengths.len()) < self.chunk_count() {
            return Err(ImageFailure::decode("fewer TIFF strips or tiles than its size needs"));
        }
        Ok(())
    }

    /// The number of chunks across and down.
    pub fn grid(&self) -> (u32, u32) {
        (self.size.width.div_ceil(self.chunk.width), self.size.height.div_ceil(self.chunk.height))
    }

    /// The samples of a pixel that one chunk contains.
    pub fn samples_per_chunk(&self) -> usize {
        if self.is_planar { 1 } else { self.samples }
    }

    fn chunk_count(&self) -> usize {
        let (across, down) = self.grid();
        let planes = if self.is_planar { self.samples } else { 1 };
        (across as usize).saturating_mul(down as usize).saturating_mul(planes)
    }

    /// The stored bytes of a chunk; `None` if it starts beyond the end of the file.
    pub fn chunk_bytes(&self, file: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offsets[index]).ok().filter(|&start| start < file.len())?;
        let len = usize::try_from(self.lengths[index]).unwrap_or(usize::MAX);
        Some(&file[start..start.saturating_add(len).min(file.len())])
    }

    /// The rows that a chunk in row `down` of the grid contains.
    pub fn rows_in_chunk(&self, down: u32) -> u32 {
        if self.is_tiled {
            self.chunk.height
        } else {
            self.chunk.height.min(self.size.height - down * self.chunk.height)
        }
    }

    /// The bytes of one row of a chunk when decompressed.
    pub fn row_bytes(&self) -> usize {
        (self.chunk.width as usize * self.samples_per_chunk() * self.bits as usize).div_ceil(8)
    }

    /// The memory that decoding needs besides the picture: all samples, and a chunk before and after unpacking.
    pub fn decoding_bytes(&self) -> u64 {
        let per_chunk = self.row_bytes() as u64 * u64::from(self.chunk.height);
        let unpacked = self.chunk.area() * self.samples_per_chunk() as u64;
        self.size.area() * self.samples as u64 + per_chunk * 2 + unpacked * 2
    }
}

fn side(tags: &Directory, tag: u16) -> Result<u32, ImageFailure> {
    let side = tags.number_or(tag, 0)?;
    u32::try_from(side).ok().filter(|&side| side > 0).ok_or_else(|| ImageFailure::decode("width or height is 0"))
}

fn strip(tags: &Directory, size: PixelSize) -> Result<PixelSize, ImageFailure> {
    let rows = tags.number_or(278, u64::from(u32::MAX))?.clamp(1, size.height.into());
    Ok(PixelSize::new(size.width, rows as u32))
}

/// Bits per sample, which must be the same for all samples.
fn bits(tags: &Directory) -> Result<u32, ImageFailure> {
    let bits = tags.numbers(258)?.unwrap_or_else(|| vec![1]);
    let first = bits.first().copied().unwrap_or(1);
    if bits.iter().any(|&other| other != first) {
        return Err(ImageFailure::new(ImageFailureCode::Unsupported, "TIFF samples of different sizes"));
    }
    Ok(u32::try_from(first).unwrap_or(0))
}

fn sample_kind(tags: &Directory) -> Result<SampleKind, ImageFailure> {
    match tags.number_or(339, 1)? {
        2 => Ok(SampleKind::Signed),
        3 => Ok(SampleKind::Float),
        1 | 4 => Ok(SampleKind::Unsigned),
        other => Err(ImageFailure::new(ImageFailureCode::Unsupported, format!("TIFF sample format {other}"))),
    }
}

fn compression(tags: &Directory) -> Result<TiffCompression, ImageFailure> {
    Ok(match tags.number_or(259, 1)? {
        1 => TiffCompression::None,
        2 => TiffCompression::Rle,
        3 => TiffCompression::Group3 { two_dimensional: tags.number_or(292, 0)? & 1 == 1 },
        4 => TiffCompression::Group4,
        5 => TiffCompression::Lzw,
        7 => TiffCompression::Jpeg,
        8 | 32_946 => TiffCompression::Deflate,
        32_773 => TiffCompression::PackBits,
        other => {
            return Err(ImageFailure::new(ImageFailureCode::Unsupported, format!("TIFF compression {other}")));
        }
    })
}

fn photometric(tags: &Directory, samples: usize) -> Result<Photometric, ImageFailure> {
    let default = if samples >= 3 { 2 } else { 1 };
    let (photometric, least) = match tags.number_or(262, default)? {
        0 => (Photometric::WhiteIsZero, 1),
        1 | 4 => (Photometric::BlackIsZero, 1),
        2 => (Photometric::Rgb, 3),
        3 => (Photometric::Palette, 1),
        5 => (Photometric::Cmyk, 4),
        6 => (Photometric::YCbCr, 3),
        8 => (Photometric::Lab { signed: true }, 3),
        9 => (Photometric::Lab { signed: false }, 3),
        other => {
            return Err(ImageFailure::new(ImageFailureCode::Unsupported, format!("TIFF colour model {other}")));
        }
    };
    if samples < least {
        return Err(ImageFailure::decode(format!("{samples} samples are too few for the TIFF colour model")));
    }
    Ok(photometric)
}

/// Which sample is alpha. As in libtiff, a fourth sample of RGB without a declared meaning is alpha.
fn alpha(tags: &Directory, samples: usize, photometric: Photometric) -> Result<Option<Alpha>, ImageFailure> {
    let colors = match photometric {
        Photometric::WhiteIsZero | Photometric::BlackIsZero => 1,
        Photometric::Rgb | Photometric::Lab { .. } | Photometric::YCbCr => 3,
        Photometric::Palette | Photometric::Cmyk => return Ok(None),
    };
    let extra = tags.numbers(338)?.and_then(|extra| extra.first().copied());
    Ok(match extra {
        _ if samples <= colors => None,
        Some(1) => Some(Alpha::Premultiplied),
        Some(2) => Some(Alpha::Straight),
        _ if colors == 3 && samples == 4 => Some(Alpha::Straight),
        _ => None,
    })
}

/// The palette: all reds, then all greens, then all blues, of 16 bits each.
fn palette(tags: &Directory) -> Result<Vec<[u8; 3]>, ImageFailure> {
    let values = tags.numbers(320)?.unwrap_or_default();
    let count = values.len() / 3;
    // Some writers store 8 bits, as libtiff knows too.
    let shift = if values.iter().all(|&value| value < 256) { 0 } else { 8 };
    let color = |i: usize| [values[i], values[count + i], values[2 * count + i]].map(|value| (value >> shift) as u8);
    Ok((0..count).map(color).collect())
}
