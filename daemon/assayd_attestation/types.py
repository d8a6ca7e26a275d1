"""Defines the predicate types of this project's statements. See docs/attestations.md."""

VERDICT_TYPE = "urn:assayd:attestation:verdict:1"
BATCH_TYPE = "urn:assayd:attestation:batch:1"
