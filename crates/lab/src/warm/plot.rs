//! Reads from disk over time, as SVG. Pure.
