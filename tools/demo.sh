#!/usr/bin/env bash
# Prepares tiny Shakespeare, trains recipes/shakespeare.yaml on it, and prints the validation loss and a sample. Run it
# again and it starts over.
set -euo pipefail
cd "$(dirname "$0")/.."
causeway=build/causeway
rm -rf out/shakespeare runs/shakespeare

echo "== preparing the text"
"$causeway" data prepare examples/text/tinyshakespeare.txt --output out/shakespeare --validation-fraction 0.1

echo "== training recipes/shakespeare.yaml"
"$causeway" train recipes/shakespeare.yaml | tee out/shakespeare-train.txt

echo "== the checkpoint"
"$causeway" checkpoint verify runs/shakespeare

echo "== a sample"
sample=$("$causeway" generate runs/shakespeare --prompt "ROMEO:" --tokens 400)
loss=$(sed -n 's/^validation loss: \([0-9.]*\) nats per token$/\1/p' out/shakespeare-train.txt)
echo "validation loss: $loss nats per byte"
echo "$sample"
