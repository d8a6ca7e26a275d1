"""Defines the predicate types of this project's statements; docs/attestations.md describes them."""

VERDICT_TYPE = "urn:assayd:attestation:verdict:1"
BATCH_TYPE = "urn:assayd:attestation:batch:1"
