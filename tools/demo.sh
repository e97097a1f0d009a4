#!/usr/bin/env bash
# Prepares tiny Shakespeare, trains recipes/shakespeare.yaml on it, and prints the validation loss and a sample. Run it
# again and it starts over.
set -euo pipefail
cd "$(dirname "$0")/.."
causeway=build/causeway
rm -rf out/shakespeare runs/shakespeare

echo "== preparing the text"
"$causeway" data prepare examples/text/tinyshakespeare.txt --output out/shakespeare --validation-fraction 0.1

# Batches of 2 learn from 1.0 million tokens what the recipe's batches of 16, which keep a GPU busy, learn from 1.6.
echo "== training recipes/shakespeare.yaml, in small batches"
"$causeway" train recipes/shakespeare.yaml train.batch_size=2 train.steps=2000 optimizer.learning_rate=1.4e-3 \
  optimizer.beta2=0.98 optimizer.weight_decay=0.5 schedule.kind=linear schedule.warmup_steps=100 \
  schedule.final_factor=0.02 evaluation.interval=1000 | tee out/shakespeare-train.txt

echo "== the checkpoint"
"$causeway" checkpoint verify runs/shakespeare

echo "== a sample"
sample=$("$causeway" generate runs/shakespeare --prompt "ROMEO:" --tokens 400)
loss=$(sed -n 's/^validation loss: \([0-9.]*\) nats per token$/\1/p' out/shakespeare-train.txt)
echo "validation loss: $loss nats per byte"
echo "$sample"
