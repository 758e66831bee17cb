//! The codecs of compressed packets. Each thread keeps some to use again, as making one costs more than using it.

use std::cell::RefCell;
use std::fmt;
use std::io;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// zlib's own level, as servers use it.
const ZLIB_LEVEL: flate2::Compression = flate2::Compression::new(6);
/// Of the levels that a client may name, 22, those that take no longer for a frame than zlib: one thread serves many clients.
const ZSTD_LEVELS: std::ops::RangeInclusive<u8> = 1..=6;
/// A frame holds at most 16 MiB before compression, and no packer looks back further than that.
const ZSTD_WINDOW_LOG_MAX: u32 = 24;
/// Of each kind, on each thread.
const SPARE_MAX: usize = 8;
/// An unpacker keeps as much memory as the largest frame took that it has unpacked: one of more than this is not kept.
const SPARE_BYTES_MAX: usize = 128 * 1024;

/// How packets are compressed on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// zlib, of every version.
    Zlib,
    /// zstd, of MySQL 8.0.18 and MariaDB's connectors.
    Zstd {
        /// The choice of the side that asked for it: 1 to 22.
        level: u8,
    },
}

impl Codec {
    /// Puts the compressed bytes behind what `out` has. `false`: they do not become fewer, and `out` may hold a part of them.
    pub(super) fn pack(self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<bool> {
        // What has no room in as many bytes does not become fewer.
        out.reserve(bytes.len());
        SPARE.with_borrow_mut(|spare| match self {
            Codec::Zlib => {
                let packer = spare.deflate.get_or_insert_with(|| Compress::new(ZLIB_LEVEL, true));
                packer.reset();
                let packed = packer.compress_vec(bytes, out, FlushCompress::Finish);
                Ok(packed.map_err(io::Error::other)? == Status::StreamEnd)
            }
            Codec::Zstd { level } => {
                let packer = match &mut spare.zstd {
                    Some(packer) => packer,
                    none => none.insert(zstd::bulk::Compressor::new(0)?),
                };
                let level = level.clamp(*ZSTD_LEVELS.start(), *ZSTD_LEVELS.end());
                packer.set_compression_level(i32::from(level))?;
                let from = out.len();
                out.resize(from + bytes.len(), 0);
                // It fails where there is no room.
                let Ok(packed) = packer.compress_to_buffer(bytes, &mut out[from..]) else { return Ok(false) };
                out.truncate(from + packed);
                Ok(true)
            }
        })
    }

    /// For a frame of so many bytes before compression.
    pub(super) fn unpacker(self, bytes: usize) -> io::Result<Unpacker> {
        let spare = |kept: &mut Spare| match self {
            Codec::Zlib => kept.unpackers_zlib.pop(),
            Codec::Zstd { .. } => kept.unpackers_zstd.pop(),
        };
        // The threads' own may be gone when one ends.
        if let Some(kind) = SPARE.try_with(|kept| spare(&mut kept.borrow_mut())).ok().flatten() {
            return Ok(Unpacker { kind: Some(kind), bytes });
        }
        let kind = match self {
            Codec::Zlib => Kind::Zlib(Box::new(Decompress::new(true))),
            Codec::Zstd { .. } => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                Kind::Zstd(Box::new(decoder))
            }
        };
        Ok(Unpacker { kind: Some(kind), bytes })
    }
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

#[derive(Default)]
struct Spare {
    deflate: Option<Compress>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    unpackers_zlib: Vec<Kind>,
    unpackers_zstd: Vec<Kind>,
}

enum Kind {
    Zlib(Box<Decompress>),
    Zstd(Box<Decoder<'static>>),
}

/// What one step of unpacking did.
pub(super) struct Progress {
    /// Bytes of the compressed ones.
    pub taken: usize,
    /// Plain bytes.
    pub made: usize,
    /// By the codec's own form nothing more comes.
    pub is_at_end: bool,
}

/// Unpacks one frame, piece by piece.
pub(super) struct Unpacker {
    /// `None` only while it is dropped.
    kind: Option<Kind>,
    /// What the frame has before compression.
    bytes: usize,
}

impl Unpacker {
    pub(super) fn unpack(&mut self, from: &[u8], to: &mut [u8]) -> io::Result<Progress> {
        match &mut self.kind {
            Some(Kind::Zlib(decompress)) => {
                let (taken, made) = (decompress.total_in(), decompress.total_out());
                let status = decompress.decompress(from, to, FlushDecompress::None).map_err(malformed)?;
                Ok(Progress {
                    taken: (decompress.total_in() - taken) as usize,
                    made: (decompress.total_out() - made) as usize,
                    is_at_end: status == Status::StreamEnd,
                })
            }
            Some(Kind::Zstd(decoder)) => {
                let status = decoder.run_on_buffers(from, to).map_err(malformed)?;
                let (taken, made) = (status.bytes_read, status.bytes_written);
                Ok(Progress { taken, made, is_at_end: status.remaining == 0 })
            }
            None => Ok(Progress { taken: 0, made: 0, is_at_end: true }),
        }
    }
}

fn malformed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Drop for Unpacker {
    fn drop(&mut self) {
        let Some(mut kind) = self.kind.take() else { return };
        if self.bytes > SPARE_BYTES_MAX {
            return;
        }
        let is_ready = match &mut kind {
            Kind::Zlib(decompress) => {
                decompress.reset(true);
                true
            }
            Kind::Zstd(decoder) => decoder.reinit().is_ok(),
        };
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let kept = match kind {
                Kind::Zlib(_) => &mut spare.unpackers_zlib,
                Kind::Zstd(_) => &mut spare.unpackers_zstd,
            };
            if is_ready && kept.len() < SPARE_MAX {
                kept.push(kind);
            }
        });
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacker(..)")
    }
}
