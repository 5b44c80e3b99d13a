//! Packet encryption by AWS-LC.
