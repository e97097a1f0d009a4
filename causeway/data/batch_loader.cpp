#include "causeway/data/batch_loader.h"

#include <chrono>
#include <utility>

namespace causeway::data {
namespace {

BatchOptions checked(const TokenDataset& dataset, BatchOptions options) {
  const auto refuse = [](const std::string& what, const std::string& where, const std::string& hint) {
    throw Error(ErrorKind::kInvalidArgument, what, where, hint);
  };
  if (options.sequence_length <= 0) {
    refuse(fmt::format("the sequence length is {}", options.sequence_length), "batch", "It must be at least 1.");
  }
  if (options.global_batch_size <= 0) {
    refuse(fmt::format("the global batch size is {}", options.global_batch_size), "batch", "It must be at least 1.");
  }
  if (options.micro_batches <= 0 || options.global_batch_size % options.micro_batches != 0) {
    refuse(fmt::format("{} micro-batches of a global batch of {}", options.micro_batches, options.global_batch_size),
           "batch", "The global batch size must divide by the number of micro-batches.");
  }
  const int64_t micro_batch = options.global_batch_size / options.micro_batches;
  if (options.rows == 0) options.rows = micro_batch - options.first_row;
  if (options.first_row < 0 || options.rows <= 0 || options.first_row > micro_batch - options.rows) {
    refuse(fmt::format("rows {} to {} are not inside the {} of {}", options.first_row, options.first_row + options.rows,
                       options.micro_batches > 1 ? "micro-batch" : "global batch", micro_batch),
           "batch", "The global batch size must divide by the number of data-parallel ranks.");
  }
  if (options.read_ahead < 0)
    refuse(fmt::format("read_ahead is {}", options.read_ahead), "batch", "It must be at least 0.");
  const std::optional<TokenizerIdentity>& tokenizer = dataset.tokenizer_identity();
  if (options.vocabulary_size > 0 && tokenizer && tokenizer->vocabulary_size > options.vocabulary_size) {
    refuse(fmt::format("the data's tokenizer \"{}\" has {} tokens, the model's vocabulary only {}", tokenizer->name,
                       tokenizer->vocabulary_size, options.vocabulary_size),
           dataset.path().string(),
           fmt::format("Give the model a vocabulary of at least {}.", tokenizer->vocabulary_size));
  }
  if (options.vocabulary_size > 0 && !tokenizer) dataset.check_vocabulary(options.vocabulary_size);
  if ((options.document_numbers || options.ignore_targets_across_documents) && !dataset.knows_documents()) {
    refuse("the token file does not tell where documents begin, which a document mask needs", dataset.path().string(),
           "Leave data.document_mask out, or use a dataset that \"causeway data prepare\" wrote.");
  }
  return options;
}

}  // namespace

BatchLoader::BatchLoader(const TokenDataset& dataset, const SampleOrder& order, const BatchOptions& options)
    : BatchLoader(dataset, [order](uint64_t sample) { return order.windows(sample); }, options) {}

BatchLoader::BatchLoader(const TokenDataset& dataset, const MixtureOrder& order, const BatchOptions& options)
    : BatchLoader(dataset, [order](uint64_t sample) { return order.windows(sample); }, options) {}

BatchLoader::BatchLoader(const TokenDataset& dataset, const SequentialOrder& order, const BatchOptions& options)
    : BatchLoader(dataset, [order](uint64_t sample) { return std::vector{order.window(sample)}; }, options) {}

BatchLoader::BatchLoader(const TokenDataset& dataset, const DocumentPacking& packing, uint64_t samples,
                         const BatchOptions& options)
    : BatchLoader(
          dataset,
          [&packing, samples](uint64_t sample) {
            return sample < samples ? packing.windows(sample) : std::vector<SampleWindow>();
          },
          options) {}

BatchLoader::BatchLoader(const TokenDataset& dataset, const DocumentPairs& pairs, uint64_t samples,
                         const BatchOptions& options)
    : BatchLoader(
          dataset,
          [&pairs, samples](uint64_t sample) {
            return sample < samples ? std::vector{pairs.window(sample)} : std::vector<SampleWindow>();
          },
          options) {}

BatchLoader::BatchLoader(const TokenDataset& dataset, WindowsOf windows_of, const BatchOptions& options)
    : dataset_(dataset),
      windows_of_(std::move(windows_of)),
      options_(checked(dataset, options)),
      has_targets_(dataset.has_targets()),
      has_weights_(dataset.has_target_weights()),
      cursor_(options.first_sample) {
  if (options_.read_ahead > 0) reader_ = std::thread([this] { read_ahead(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (reader_.joinable()) reader_.join();
}

const Batch& BatchLoader::next() {
  const auto start = std::chrono::steady_clock::now();
  if (options_.read_ahead > 0) {
    wait_for_batch();
  } else {
    fill(cursor_, current_);
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  cursor_ += static_cast<uint64_t>(options_.global_batch_size);
  return current_;
}

void BatchLoader::wait_for_batch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || failure_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  spent_.push_back(std::exchange(current_, std::move(ready_.front())));
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
}

void BatchLoader::read_ahead() {
  for (uint64_t sample = options_.first_sample;; sample += static_cast<uint64_t>(options_.global_batch_size)) {
    Batch batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || ready_.size() < static_cast<size_t>(options_.read_ahead); });
      if (stop_) return;
      if (!spent_.empty()) {
        batch = std::move(spent_.back());
        spent_.pop_back();
      }
    }
    std::exception_ptr failure;
    try {
      fill(sample, batch);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      failure_ = failure;
      if (failure == nullptr) ready_.push_back(std::move(batch));
    }
    changed_.notify_all();
    if (failure != nullptr) return;
  }
}

void BatchLoader::fill(uint64_t first_sample, Batch& batch) const {
  const auto elements = static_cast<size_t>(rows() * options_.sequence_length);
  batch.first_sample = first_sample;
  batch.valid_targets = 0;
  batch.global_chosen_targets = 0;
  batch.global_tokens = 0;
  batch.first_tokens.assign(static_cast<size_t>(rows()), dataset_.token_count());
  batch.inputs.assign(elements, 0);
  batch.targets.assign(elements, kIgnoredTarget);
  batch.target_weights.assign(has_weights_ ? elements : 0, 0.0f);
  batch.global_target_weight = 0;
  if (options_.document_numbers) batch.documents.assign(elements, 0);
  int64_t others = 0;
  const int64_t micro_batch = options_.global_batch_size / options_.micro_batches;
  for (int64_t row = 0; row < options_.global_batch_size; ++row) {
    const std::vector<SampleWindow> windows = windows_of_(first_sample + static_cast<uint64_t>(row));
    for (const SampleWindow& window : windows) batch.global_tokens += positions_of(window);
    const int64_t own_row = row % micro_batch - options_.first_row;
    const int64_t before = batch.valid_targets + others;
    if (own_row >= 0 && own_row < options_.rows) {
      const int64_t place = row / micro_batch * options_.rows + own_row;
      fill_row(windows, place, batch);
      if (!windows.empty()) batch.first_tokens[static_cast<size_t>(place)] = windows.front().offset;
    } else {
      for (const SampleWindow& window : windows) {
        const Counted counted = count_targets(window);
        others += counted.targets;
        batch.global_target_weight += counted.weight;
      }
    }
    const bool is_chosen = dataset_.holds_pairs() && (first_sample + static_cast<uint64_t>(row)) % 2 == 0;
    if (is_chosen) batch.global_chosen_targets += batch.valid_targets + others - before;
  }
  batch.global_valid_targets = batch.valid_targets + others;
}

int64_t BatchLoader::positions_of(const SampleWindow& window) const {
  if (options_.all_are_inputs) return static_cast<int64_t>(window.length);
  return window.length < 2 ? 0 : static_cast<int64_t>(window.length) - 1;
}

BatchLoader::Counted BatchLoader::count(std::span<const float> weights) {
  Counted counted;
  for (const float weight : weights) {
    counted.targets += weight > 0;
    counted.weight += static_cast<double>(weight);
  }
  return counted;
}

BatchLoader::Counted BatchLoader::count_targets(const SampleWindow& window) const {
  if (options_.all_are_inputs) return window.length > 0 ? Counted{1, 1} : Counted{};
  const int64_t positions = positions_of(window);
  if (positions == 0 || counts_all()) return {positions, static_cast<double>(positions)};
  thread_local std::vector<float> weights;
  read_weights(window, weights);
  return count(weights);
}

void BatchLoader::read_weights(const SampleWindow& window, std::vector<float>& weights) const {
  weights.resize(window.length);
  dataset_.read_target_weights(window.offset, weights);
  weights.erase(weights.begin());
  if (!options_.ignore_targets_across_documents) return;
  thread_local std::vector<int32_t> documents;
  documents.resize(window.length);
  dataset_.read_document_numbers(window.offset, documents);
  for (size_t i = 0; i < weights.size(); ++i)
    if (documents[i] != documents[i + 1]) weights[i] = 0;
}

void BatchLoader::fill_row(std::span<const SampleWindow> windows, int64_t row, Batch& batch) const {
  int64_t column = 0;
  for (const SampleWindow& window : windows) {
    CAUSEWAY_CHECK(positions_of(window) <= options_.sequence_length - column);
    if (positions_of(window) == 0) continue;
    fill_window(window, row, column, batch);
    column += positions_of(window);
  }
  if (!options_.document_numbers) return;
  const auto documents = std::span(batch.documents).subspan(static_cast<size_t>(row * options_.sequence_length));
  std::fill_n(documents.begin() + column, options_.sequence_length - column, static_cast<int32_t>(column));
}

void BatchLoader::fill_window(const SampleWindow& window, int64_t row, int64_t column, Batch& batch) const {
  thread_local std::vector<int32_t> tokens;
  tokens.resize(window.length);
  dataset_.read(window.offset, tokens);
  if (options_.vocabulary_size > 0) check_vocabulary(window, tokens);
  const ptrdiff_t start = row * options_.sequence_length + column;
  if (options_.all_are_inputs) return fill_whole_window(tokens, start, batch);
  const auto inputs = batch.inputs.begin() + start;
  const auto targets = batch.targets.begin() + start;
  std::copy(tokens.begin(), tokens.end() - 1, inputs);
  std::copy(tokens.begin() + 1, tokens.end(), targets);
  if (options_.document_numbers) {
    thread_local std::vector<int32_t> documents;
    documents.resize(window.length);
    dataset_.read_document_numbers(window.offset, documents);
    auto begin = static_cast<int32_t>(column);
    for (size_t i = 0; i + 1 < documents.size(); ++i) {
      if (i > 0 && documents[i] != documents[i - 1]) begin = static_cast<int32_t>(column) + static_cast<int32_t>(i);
      batch.documents[static_cast<size_t>(start) + i] = begin;
    }
  }
  if (counts_all()) {
    batch.valid_targets += positions_of(window);
    batch.global_target_weight += static_cast<double>(positions_of(window));
    return;
  }
  thread_local std::vector<float> weights;
  read_weights(window, weights);
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] == 0) targets[static_cast<ptrdiff_t>(i)] = kIgnoredTarget;
  if (has_weights_) std::ranges::copy(weights, batch.target_weights.begin() + start);
  const Counted counted = count(weights);
  batch.valid_targets += counted.targets;
  batch.global_target_weight += counted.weight;
}

void BatchLoader::fill_whole_window(std::span<const int32_t> tokens, ptrdiff_t start, Batch& batch) const {
  std::ranges::copy(tokens, batch.inputs.begin() + start);
  const size_t last = static_cast<size_t>(start) + tokens.size() - 1;
  batch.targets[last] = 0;
  if (has_weights_) batch.target_weights[last] = 1;
  ++batch.valid_targets;
  ++batch.global_target_weight;
}

void BatchLoader::check_vocabulary(const SampleWindow& window, std::span<const int32_t> tokens) const {
  const auto beyond = std::find_if(tokens.begin(), tokens.end(), [this](int32_t id) {
    return static_cast<int64_t>(static_cast<uint32_t>(id)) >= options_.vocabulary_size;
  });
  if (beyond == tokens.end()) return;
  const TokenDataset::Place place = dataset_.locate(window.offset + static_cast<uint64_t>(beyond - tokens.begin()));
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("token id {} is beyond the model's vocabulary of {}", static_cast<uint32_t>(*beyond),
                          options_.vocabulary_size),
              fmt::format("{}, token {}", place.shard->path().string(), place.position),
              "Check that the data was made with the model's tokenizer, or give the model a larger vocabulary.");
}

}  // namespace causeway::data
