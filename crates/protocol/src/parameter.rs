//! The parameters of a COM_STMT_EXECUTE or a COM_STMT_BULK_EXECUTE, as values.
//!
//! Enters: the command's payload, how many parameters the statement has, the types that were told before if it tells none, and what was sent
//! for them by COM_STMT_SEND_LONG_DATA. Leaves: one [`Parameter`] each. A type whose value cannot be said for certain as a literal is an error.
//!
//! Source: MariaDB's "COM_STMT_EXECUTE", MySQL's "Binary Protocol Value"; the server's own reading of both (`sql_prepare.cc`).

use crate::packet::{Fields, Malformed};

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter<'a> {
    /// NULL
    Null,
    /// An integer of a signed type.
    Signed(i64),
    /// An integer of an unsigned type.
    Unsigned(u64),
    /// FLOAT and DOUBLE: never infinite, always a number.
    Double(f64),
    /// A decimal number, as text.
    Decimal(&'a [u8]),
    /// DATE
    Date {
        /// 0 to 9999
        year: u16,
        /// 0 to 12
        month: u8,
        /// 0 to 31
        day: u8,
    },
    /// DATETIME and TIMESTAMP
    DateTime {
        /// 0 to 9999
        year: u16,
        /// 0 to 12
        month: u8,
        /// 0 to 31
        day: u8,
        /// 0 to 23
        hour: u8,
        /// 0 to 59
        minute: u8,
        /// 0 to 59
        second: u8,
        /// 0 to 999,999
        micros: u32,
    },
    /// TIME
    Time {
        /// It is below zero.
        is_negative: bool,
        /// 0 to 838
        hours: u32,
        /// 0 to 59
        minute: u8,
        /// 0 to 59
        second: u8,
        /// 0 to 999,999
        micros: u32,
    },
    /// Text in the session's `character_set_client`.
    Text(&'a [u8]),
    /// Bytes.
    Binary(&'a [u8]),
}

/// Where the NULL bits begin in a COM_STMT_EXECUTE: behind the command, the statement's id, the flags and the count.
const NULLS_AT: usize = 10;
/// The indicators of a COM_STMT_BULK_EXECUTE, between which lies that of a default.
const BULK_VALUE: u8 = 0;
const BULK_NULL: u8 = 1;
const BULK_IGNORE: u8 = 3;
/// In the second byte of a type.
const UNSIGNED: u16 = 0x8000;
/// TIME ends here.
const HOURS_MAX: u32 = 838;

/// The values of a COM_STMT_EXECUTE's `payload`. `known_types`: those told last (two bytes each), where the command tells none; `long`: what
/// was sent for a parameter before.
pub fn parameters<'a>(
    payload: &'a [u8],
    count: u16,
    known_types: &'a [u8],
    long: impl Fn(u16) -> Option<&'a [u8]>,
) -> Result<Vec<Parameter<'a>>, Malformed> {
    if count == 0 {
        return Ok(vec![]);
    }
    let mut fields = Fields::new(payload.get(NULLS_AT..).unwrap_or_default());
    let nulls = fields.bytes(usize::from(count).div_ceil(8))?;
    let types = match fields.u8()? {
        0 => known_types,
        _ => fields.bytes(usize::from(count) * 2)?,
    };
    let mut types = Fields::new(types);
    (0..count)
        .map(|nth| {
            let kind = types.u16().map_err(|_| Malformed::new("parameters of which no type was told"))?;
            let (code, is_unsigned) = (kind as u8, kind & UNSIGNED != 0);
            if let Some(data) = long(nth) {
                return long_value(code, data);
            }
            let is_null = nulls.get(usize::from(nth / 8)).is_some_and(|byte| byte >> (nth % 8) & 1 == 1);
            if is_null { Ok(Parameter::Null) } else { value(&mut fields, code, is_unsigned) }
        })
        .collect()
}

/// The rows of a COM_STMT_BULK_EXECUTE's `payload`: behind `rows_at`, each value has an indicator before it. `types`: those told last. A value
/// that is left to the column's default is NULL here.
pub fn bulk_parameters<'a>(
    payload: &'a [u8],
    rows_at: usize,
    count: u16,
    types: &[u8],
) -> Result<Vec<Vec<Parameter<'a>>>, Malformed> {
    let mut fields = Fields::new(payload.get(rows_at..).unwrap_or_default());
    let mut rows = vec![];
    while count > 0 && !fields.is_empty() {
        let mut types = Fields::new(types);
        let row = (0..count).map(|_| {
            let kind = types.u16().map_err(|_| Malformed::new("parameters of which no type was told"))?;
            match fields.u8()? {
                BULK_VALUE => value(&mut fields, kind as u8, kind & UNSIGNED != 0),
                BULK_NULL..=BULK_IGNORE => Ok(Parameter::Null),
                _ => Err(Malformed::new("an indicator that nobody knows")),
            }
        });
        rows.push(row.collect::<Result<_, _>>()?);
    }
    Ok(rows)
}

fn long_value(code: u8, data: &[u8]) -> Result<Parameter<'_>, Malformed> {
    match code {
        0x0F | 0xFD | 0xFE => Ok(Parameter::Text(data)),
        0xF9..=0xFC => Ok(Parameter::Binary(data)),
        _ => Err(Malformed::new("long data for a type that is neither text nor bytes")),
    }
}

fn value<'a>(fields: &mut Fields<'a>, code: u8, is_unsigned: bool) -> Result<Parameter<'a>, Malformed> {
    // Widened as the type has it.
    let integer = |signed: i64, unsigned: u64| {
        if is_unsigned { Parameter::Unsigned(unsigned) } else { Parameter::Signed(signed) }
    };
    Ok(match code {
        0x06 => Parameter::Null,
        0x01 => {
            let byte = fields.u8()?;
            integer(i64::from(byte.cast_signed()), u64::from(byte))
        }
        0x02 => {
            let short = fields.u16()?;
            integer(i64::from(short.cast_signed()), u64::from(short))
        }
        0x03 => {
            let long = fields.u32()?;
            integer(i64::from(long.cast_signed()), u64::from(long))
        }
        0x08 => {
            let number = fields.u64()?;
            integer(number.cast_signed(), number)
        }
        0x04 => double(f64::from(f32::from_bits(fields.u32()?)))?,
        0x05 => double(f64::from_bits(fields.u64()?))?,
        0x00 | 0xF6 => Parameter::Decimal(fields.lenenc_bytes()?),
        0x0A => date(fields)?,
        0x07 | 0x0C => date_time(fields)?,
        0x0B => time(fields)?,
        0x0F | 0xFD | 0xFE => Parameter::Text(fields.lenenc_bytes()?),
        0xF9..=0xFC => Parameter::Binary(fields.lenenc_bytes()?),
        // Among others YEAR and INT24, which MariaDB takes for NULL and MySQL for texts.
        _ => return Err(Malformed::new("a parameter of a type that has no literal here")),
    })
}

fn double(number: f64) -> Result<Parameter<'static>, Malformed> {
    if number.is_finite() {
        Ok(Parameter::Double(number))
    } else {
        Err(Malformed::new("a number without a value"))
    }
}

fn date(fields: &mut Fields<'_>) -> Result<Parameter<'static>, Malformed> {
    Ok(match date_time(fields)? {
        Parameter::DateTime { year, month, day, .. } => Parameter::Date { year, month, day },
        other => other,
    })
}

fn date_time(fields: &mut Fields<'_>) -> Result<Parameter<'static>, Malformed> {
    let len = fields.u8()?;
    let mut parts = Fields::new(fields.bytes(usize::from(len))?);
    let (mut year, mut month, mut day) = (0, 0, 0);
    let (mut hour, mut minute, mut second, mut micros) = (0, 0, 0, 0);
    if len >= 4 {
        (year, month, day) = (parts.u16()?, parts.u8()?, parts.u8()?);
    }
    if len >= 7 {
        (hour, minute, second) = (parts.u8()?, parts.u8()?, parts.u8()?);
    }
    if len >= 11 {
        micros = parts.u32()?;
    }
    let is_sound = matches!(len, 0 | 4 | 7 | 11)
        && year <= 9999
        && month <= 12
        && day <= 31
        && hour <= 23
        && minute <= 59
        && second <= 59
        && micros <= 999_999;
    if is_sound {
        Ok(Parameter::DateTime { year, month, day, hour, minute, second, micros })
    } else {
        Err(Malformed::new("a date that no calendar has"))
    }
}

fn time(fields: &mut Fields<'_>) -> Result<Parameter<'static>, Malformed> {
    let len = fields.u8()?;
    let mut parts = Fields::new(fields.bytes(usize::from(len))?);
    let (mut is_negative, mut hours, mut minute, mut second, mut micros) = (false, 0, 0, 0, 0);
    if len >= 8 {
        is_negative = parts.u8()? != 0;
        let days = parts.u32()?;
        hours = days.saturating_mul(24).saturating_add(u32::from(parts.u8()?));
        (minute, second) = (parts.u8()?, parts.u8()?);
    }
    if len >= 12 {
        micros = parts.u32()?;
    }
    let is_sound =
        matches!(len, 0 | 8 | 12) && hours <= HOURS_MAX && minute <= 59 && second <= 59 && micros <= 999_999;
    if is_sound {
        Ok(Parameter::Time { is_negative, hours, minute, second, micros })
    } else {
        Err(Malformed::new("a time that no server takes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An EXECUTE with these NULL bits, types and values.
    fn execute(nulls: &[u8], types: &[u16], values: &[u8]) -> Vec<u8> {
        let mut payload = vec![0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0];
        payload.extend_from_slice(nulls);
        payload.push(u8::from(!types.is_empty()));
        payload.extend(types.iter().flat_map(|kind| kind.to_le_bytes()));
        payload.extend_from_slice(values);
        payload
    }

    #[test]
    fn values_are_read_by_their_types() {
        let types = [0x01, 0x8001, 0x02, 0x03, 0x8008, 0x05, 0xF6, 0xFE, 0xFC, 0x06, 0x08];
        let mut values = vec![0xFF, 0xFF, 0xFE, 0xFF, 0, 0, 0, 0x80];
        values.extend_from_slice(&u64::MAX.to_le_bytes());
        values.extend_from_slice(&1.5f64.to_le_bytes());
        values.extend_from_slice(b"\x0412.5\x01a\x02\x00\xFF");
        let payload = execute(&[0, 4], &types, &values);
        let wanted = vec![
            Parameter::Signed(-1),
            Parameter::Unsigned(255),
            Parameter::Signed(-2),
            Parameter::Signed(i64::from(i32::MIN)),
            Parameter::Unsigned(u64::MAX),
            Parameter::Double(1.5),
            Parameter::Decimal(b"12.5"),
            Parameter::Text(b"a"),
            Parameter::Binary(b"\x00\xFF"),
            Parameter::Null,
            Parameter::Null,
        ];
        assert_eq!(parameters(&payload, 11, &[], |_| None), Ok(wanted));
    }

    #[test]
    fn types_told_before_and_long_data_count() {
        let payload = execute(&[0], &[], &[7, 0, 0, 0]);
        let long = |nth| (nth == 1).then_some(&b"long"[..]);
        let wanted = vec![Parameter::Signed(7), Parameter::Text(b"long")];
        assert_eq!(parameters(&payload, 2, &[3, 0, 0xFD, 0], long), Ok(wanted));
        assert!(parameters(&payload, 2, &[3, 0], long).is_err());
        assert!(parameters(&payload, 2, &[3, 0, 3, 0], long).is_err());
    }

    #[test]
    fn moments_are_read_in_all_their_lengths() {
        let one = |kind, values: &[u8]| parameters(execute(&[0], &[kind], values).leak(), 1, &[], |_| None);
        let zero =
            Parameter::DateTime { year: 0, month: 0, day: 0, hour: 0, minute: 0, second: 0, micros: 0 };
        assert_eq!(one(0x0C, &[0]), Ok(vec![zero]));
        assert_eq!(
            one(0x0A, &[4, 0xE8, 0x07, 2, 29]),
            Ok(vec![Parameter::Date { year: 2024, month: 2, day: 29 }])
        );
        let full = [11, 0xE8, 0x07, 2, 29, 23, 59, 58, 1, 0, 0, 0];
        let wanted = Parameter::DateTime {
            year: 2024,
            month: 2,
            day: 29,
            hour: 23,
            minute: 59,
            second: 58,
            micros: 1,
        };
        assert_eq!(one(0x07, &full), Ok(vec![wanted]));
        let negative = [8, 1, 1, 0, 0, 0, 2, 3, 4];
        let wanted = Parameter::Time { is_negative: true, hours: 26, minute: 3, second: 4, micros: 0 };
        assert_eq!(one(0x0B, &negative), Ok(vec![wanted]));
        assert!(one(0x0B, &[8, 0, 100, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(one(0x0C, &[5, 0, 0, 0, 0, 0]).is_err());
        assert!(one(0x05, &f64::NAN.to_le_bytes()).is_err());
        assert!(one(0xFF, &[1, 0]).is_err(), "geometry has no literal");
    }

    proptest! {
        #[test]
        fn nothing_leads_past_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..80), count in 0u16..300) {
            let _ = parameters(&bytes, count, &bytes, |_| None);
        }
    }

    #[test]
    fn rows_of_a_bulk_command_have_an_indicator_before_each_value() {
        // Command, id, flags: the rows begin behind seven bytes.
        let (head, types) = ([0xFA, 1, 0, 0, 0, 0, 0], [0x01, 0, 0xFD, 0]);
        let of = |rows: &[u8]| {
            bulk_parameters(&[&head[..], rows].concat(), 7, 2, &types).map(|rows| format!("{rows:?}"))
        };
        let text = "[[Signed(-1), Text([120])], [Null, Null], [Null, Text([])]]";
        assert_eq!(of(&[0, 255, 0, 1, b'x', 1, 2, 3, 0, 0]).unwrap(), text);
        assert_eq!(of(&[]).unwrap(), "[]");
        for wrong in [&[0][..], &[0, 1], &[0, 1, 0, 5, b'x'], &[4, 1, 1], &[1, 1, 1]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(bulk_parameters(&[0; 20], 7, 3, &types).is_err(), "a type is missing");
    }
}
