"""The types of predicates that this project signs; docs/attestations.md describes them."""

VERDICT_TYPE = "urn:assayd:attestation:verdict:1"
BATCH_TYPE = "urn:assayd:attestation:batch:1"
