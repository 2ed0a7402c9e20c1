//! Documents that prove something: pure data, shared by builder and node.
//!
//! One canonical form, so that an id is the digest of the bytes; unknown fields and newer schema
//! numbers are refused, never ignored.

pub mod boot_record;
pub mod build_root;
pub mod canonical;
pub mod envelope;
pub mod evidence;
pub mod key;
pub mod lock;
pub mod manifest;
pub mod materials;
pub mod misread;
pub mod provenance;
pub mod roles;
pub mod sbom;
