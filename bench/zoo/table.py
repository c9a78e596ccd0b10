# SPDX-License-Identifier: Apache-2.0
"""All rows of the zoo, by name."""

from bench.zoo import audio, dense, generative, language, vision

FAMILIES = {
    "language": language.NETWORKS,
    "vision": vision.NETWORKS,
    "dense": dense.NETWORKS,
    "audio": audio.NETWORKS,
    "generative": generative.NETWORKS,
}
NETWORKS = {network.name: network for rows in FAMILIES.values() for network in rows}
