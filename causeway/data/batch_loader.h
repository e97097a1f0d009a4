// Batches of samples, read ahead by a background thread.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/data/document_packing.h"
#include "causeway/data/document_pairs.h"
#include "causeway/data/mixture_order.h"
#include "causeway/data/sample_order.h"
#include "causeway/data/token_dataset.h"

namespace causeway::data {

// The target that the loss leaves out.
constexpr int32_t kIgnoredTarget = -1;

struct BatchOptions {
  int64_t sequence_length = 0;  // T
  // Samples that one batch takes from the order, over all ranks.
  int64_t global_batch_size = 0;
  // The global batch is so many micro-batches of equal size, one after another.
  int64_t micro_batches = 1;
  // The part of them that this loader reads: rows [first_row, first_row + rows) of each micro-batch; rows 0 means all
  // from first_row on.
  int64_t first_row = 0;
  int64_t rows = 0;
  // The model's vocabulary; a token at or beyond it is an error. 0 leaves tokens unchecked.
  int64_t vocabulary_size = 0;
  // Targets that are the first token of another document than their input become kIgnoredTarget, as those always do of
  // which the dataset says that they are none.
  bool ignore_targets_across_documents = false;
  bool document_numbers = false;  // Batch::documents
  // All tokens of a row's window are inputs, the last one too. Of its positions that of the last token alone has a
  // target, which is 0 and weighs 1: there something is read of the whole text.
  bool all_are_inputs = false;
  // Batches to read ahead; 0 reads in next() itself.
  int read_ahead = 2;
  // The data cursor to start at: samples consumed before.
  uint64_t first_sample = 0;
};

// Row-major [micro_batches x rows, sequence_length]. A row holds the windows of a sample one after another. What they
// leave of it (between packed documents and the row's end, and at the end of a SequentialOrder) is padding: its inputs
// are 0, its targets kIgnoredTarget, and it is a document of its own.
struct Batch {
  uint64_t first_sample = 0;         // of the global batch
  int64_t valid_targets = 0;         // targets that are not kIgnoredTarget, in these rows
  int64_t global_valid_targets = 0;  // and in the whole global batch
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
  // What each target weighs in the loss, 0 for kIgnoredTarget; empty where the dataset has no weights other than 1.
  std::vector<float> target_weights;
  // Their sum in the whole global batch, the same bits whichever rows are read; without them the number of targets.
  double global_target_weight = 0;
  // Of preference pairs, those of the chosen sides in the whole global batch.
  int64_t global_chosen_targets = 0;
  int64_t global_tokens = 0;  // positions of the whole global batch that are not padding
  // The position in its row at which each position's document begins; empty unless asked for. So two positions of a row
  // have the same number exactly when they are in the same document, and what is left of a position after it is taken
  // away is the position in the document.
  std::vector<int32_t> documents;
  std::vector<uint64_t> first_tokens;  // of each row, where its first token is in the dataset; of padding, its size
};

class BatchLoader {
 public:
  // The dataset must outlive the loader. Throws Error(kInvalidArgument) for impossible options, and when the dataset's
  // tokenizer has more tokens than the model's vocabulary, when the first tokens of a file that names no tokenizer are
  // beyond it, and when documents are asked for of a dataset that does not tell where they begin.
  BatchLoader(const TokenDataset& dataset, const SampleOrder& order, const BatchOptions& options);
  BatchLoader(const TokenDataset& dataset, const MixtureOrder& order, const BatchOptions& options);
  BatchLoader(const TokenDataset& dataset, const SequentialOrder& order, const BatchOptions& options);
  // The first `samples` of a packing once, in order; behind them rows are padding. The packing must outlive the loader.
  BatchLoader(const TokenDataset& dataset, const DocumentPacking& packing, uint64_t samples,
              const BatchOptions& options);
  // The first `samples` sides of pairs once, likewise.
  BatchLoader(const TokenDataset& dataset, const DocumentPairs& pairs, uint64_t samples, const BatchOptions& options);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  int64_t rows() const { return options_.micro_batches * options_.rows; }
  int64_t sequence_length() const { return options_.sequence_length; }

  // The next batch, valid until the next call: batch k holds samples first_sample + k * global_batch_size onwards,
  // whatever read_ahead is. Throws Error naming the shard and the position in it where a token is beyond the
  // vocabulary; every later call throws it again.
  const Batch& next();

  // The next batch into the caller's buffers of rows() * sequence_length elements, of int32_t or int64_t; `documents`
  // may be empty. Returns the number of valid targets.
  template <typename T>
  int64_t next_into(std::span<T> inputs, std::span<T> targets, std::span<T> documents = {}) {
    const Batch& batch = next();
    CAUSEWAY_CHECK(inputs.size() == batch.inputs.size() && targets.size() == batch.targets.size());
    CAUSEWAY_CHECK(documents.empty() || documents.size() == batch.documents.size());
    std::copy(batch.inputs.begin(), batch.inputs.end(), inputs.begin());
    std::copy(batch.targets.begin(), batch.targets.end(), targets.begin());
    if (!documents.empty()) std::copy(batch.documents.begin(), batch.documents.end(), documents.begin());
    return batch.valid_targets;
  }

  // The data cursor: samples consumed by the batches that next() has returned, over all ranks. A checkpoint keeps it.
  uint64_t cursor() const { return cursor_; }
  // Seconds that next() has waited for data, in all.
  double data_wait_seconds() const { return wait_seconds_; }

 private:
  using WindowsOf = std::function<std::vector<SampleWindow>(uint64_t)>;

  BatchLoader(const TokenDataset& dataset, WindowsOf windows_of, const BatchOptions& options);
  void fill(uint64_t first_sample, Batch& batch) const;
  void fill_row(std::span<const SampleWindow> windows, int64_t row, Batch& batch) const;
  // Positions of a row that the window takes.
  int64_t positions_of(const SampleWindow& window) const;
  void fill_window(const SampleWindow& window, int64_t row, int64_t column, Batch& batch) const;
  void fill_whole_window(std::span<const int32_t> tokens, ptrdiff_t start, Batch& batch) const;
  // For each position of the window's row: what that which follows it weighs in the loss.
  void read_weights(const SampleWindow& window, std::vector<float>& weights) const;
  // Of a row that another loader reads.
  struct Counted {
    int64_t targets = 0;
    double weight = 0;
  };
  Counted count_targets(const SampleWindow& window) const;
  // `weights`: of the window's positions.
  static Counted count(std::span<const float> weights);
  bool counts_all() const { return !options_.ignore_targets_across_documents && !has_targets_; }
  void check_vocabulary(const SampleWindow& window, std::span<const int32_t> tokens) const;
  void read_ahead();
  void wait_for_batch();

  const TokenDataset& dataset_;
  WindowsOf windows_of_;
  BatchOptions options_;
  bool has_targets_, has_weights_;
  uint64_t cursor_;
  double wait_seconds_ = 0;
  Batch current_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::vector<Batch> spent_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread reader_;
};

}  // namespace causeway::data
