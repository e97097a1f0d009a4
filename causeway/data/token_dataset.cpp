#include "causeway/data/token_dataset.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/data/directory_replacement.h"
#include "causeway/data/mds_decoding.h"
#include "causeway/data/mds_reader.h"
#include "causeway/formats/mds_index.h"

namespace causeway::data {
namespace {

std::vector<std::filesystem::path> list_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(directory, code), end; !code && entry != end; entry.increment(code)) {
    files.push_back(entry->path());
  }
  if (code)
    throw Error(ErrorKind::kIo, fmt::format("cannot list the directory: {}", code.message()), directory.string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string joined_names(const std::map<std::string, SplitEntry>& splits) {
  std::string names;
  for (const auto& [name, split] : splits) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string quoted_words(std::string_view split) {
  std::string text;
  for (const std::string_view word : split_words(split))
    text += fmt::format("{}\"{}\"", text.empty() ? "" : " or ", word);
  return text;
}

// Those of a split; `left_out` are those of none.
std::vector<std::filesystem::path> find_bin_files(const std::filesystem::path& directory, std::string_view split,
                                                  std::vector<std::string>& left_out) {
  std::vector<std::filesystem::path> found;
  bool any_bin = false;
  for (const std::filesystem::path& file : list_files(directory)) {
    if (file.extension() != ".bin") continue;
    any_bin = true;
    const std::optional<std::string_view> named = split_of_name(file);
    if (!named) left_out.push_back(fmt::format("{}: its name tells no split", file.string()));
    if (named == split) found.push_back(file);
  }
  if (!found.empty()) return found;
  throw Error(ErrorKind::kNotFound,
              any_bin ? fmt::format("the directory has no .bin file with the word {} in its name", quoted_words(split))
                      : fmt::format("the directory holds neither {} nor .bin files", kManifestFileName),
              directory.string(),
              any_bin ? "Name the file itself, or a pattern that it matches."
                      : "Make a dataset with \"causeway data prepare\", or name a directory with llm.c's or nanoGPT's "
                        ".bin files.");
}

// Of a split of an MDS dataset; nothing where the directory is of another kind.
std::optional<std::filesystem::path> find_mds_directory(const std::filesystem::path& path, std::string_view split) {
  std::optional<std::filesystem::path> found;
  for (const std::string_view word : split_words(split)) {
    if (!is_mds_directory(path / word)) continue;
    if (found) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the MDS dataset has two directories for the split \"{}\": {} and {}", split,
                              found->filename().string(), word),
                  path.string(), "Keep one of them there.");
    }
    found = path / word;
  }
  if (found) return found;
  const bool holds_train = std::ranges::any_of(split_words(kTrainSplit),
                                               [&](std::string_view word) { return is_mds_directory(path / word); });
  if (!is_mds_directory(path) && !holds_train) return std::nullopt;
  if (split != kValidationSplit && is_mds_directory(path)) return path;
  throw Error(ErrorKind::kNotFound, fmt::format("the MDS dataset has no split \"{}\"", split), path.string(),
              fmt::format("It is looked for in {}.", (path / split_words(split).front()).string()));
}

std::vector<std::filesystem::path> find_named_files(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::exists(path, code)) return {path};
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const std::string pattern = path.filename().string();
  std::vector<std::filesystem::path> found;
  std::vector<std::string> names;
  if (std::filesystem::is_directory(directory, code)) {
    for (const std::filesystem::path& file : list_files(directory)) {
      names.push_back(file.filename().string());
      if (::fnmatch(pattern.c_str(), names.back().c_str(), 0) == 0) found.push_back(file);
    }
  }
  if (!found.empty()) return found;
  if (const std::filesystem::path old = interrupted_replacement(path); !old.empty()) {
    throw Error(ErrorKind::kNotFound, "the dataset is not there: a preparation was interrupted while it replaced it",
                path.string(),
                fmt::format("The old one is {}: rename it, or run the preparation again.", old.string()));
  }
  const std::string nearest = nearest_name(pattern, names);
  throw Error(ErrorKind::kNotFound, "the token data does not exist", path.string(),
              nearest.empty() ? "Make a dataset with \"causeway data prepare\", or check the path."
                              : fmt::format("Did you mean \"{}\"?", (directory / nearest).string()));
}

constexpr const char* kOneTokenizerHint =
    "Prepare all sources of a mixture with one tokenizer: causeway data prepare --tokenizer DIRECTORY.";

std::string tokenizer_text(const std::optional<TokenizerIdentity>& tokenizer) {
  if (!tokenizer) return "one that its files do not name";
  return fmt::format("\"{}\" ({} tokens, {})", tokenizer->name, tokenizer->vocabulary_size,
                     tokenizer->fingerprint.substr(0, 8));
}

void require_same_tokenizer(const TokenDataset& first, const TokenDataset& other) {
  const std::optional<TokenizerIdentity>&a = first.tokenizer_identity(), &b = other.tokenizer_identity();
  if (a == b) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the tokenizer is {}, and that of {} is {}", tokenizer_text(b), first.path().string(),
                          tokenizer_text(a)),
              other.path().string(), kOneTokenizerHint);
}

// Of a shard, whether its weights are among those that the description names.
bool are_recorded(const std::vector<float>& weights, const std::optional<TargetsRecord>& targets) {
  return std::ranges::all_of(weights, [&](float weight) {
    return weight == 0 || weight == 1 ||
           (targets && std::ranges::find(targets->weights, weight) != targets->weights.end());
  });
}

}  // namespace

TokenDataset TokenDataset::open(const std::filesystem::path& path, std::string_view split,
                                const TokenDatasetOptions& options) {
  TokenDataset dataset = open_shards(path, split, options);
  dataset.sources_ = {{path, 0, dataset.token_count_, dataset.documents_}};
  return dataset;
}

TokenDataset TokenDataset::join(std::vector<TokenDataset> datasets) {
  CAUSEWAY_CHECK(!datasets.empty());
  TokenDataset joined = std::move(datasets.front());
  const int token_bytes = joined.shards_.front().token_bytes();
  for (TokenDataset& dataset : std::span(datasets).subspan(1)) {
    require_same_tokenizer(joined, dataset);
    const auto require_one_kind = [&](bool is, bool first_is, const char* kind) {
      if (is == first_is) return;
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the dataset {} of {}, and {} {}", is ? "is" : "is not", kind, joined.path_.string(),
                              first_is ? "is one" : "is not"),
                  dataset.path_.string(), "Train on one kind of data.");
    };
    require_one_kind(dataset.holds_pairs_, joined.holds_pairs_, "preference pairs");
    require_one_kind(dataset.holds_prompts_, joined.holds_prompts_, "prompts");
    if (!joined.tokenizer_identity_ && dataset.shards_.front().token_bytes() != token_bytes) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the token ids are {} bytes wide, those of {} {}: they are not of one tokenizer",
                              dataset.shards_.front().token_bytes(), joined.path_.string(), token_bytes),
                  dataset.path_.string(), kOneTokenizerHint);
    }
    joined.sources_.push_back({dataset.path_, joined.token_count_, dataset.token_count_, dataset.documents_});
    for (size_t i = 0; i < dataset.shards_.size(); ++i) {
      joined.shard_offsets_.push_back(joined.token_count_ + dataset.shard_offsets_[i]);
      joined.shards_.push_back(std::move(dataset.shards_[i]));
    }
    joined.token_count_ += dataset.token_count_;
    joined.left_out_.insert(joined.left_out_.end(), dataset.left_out_.begin(), dataset.left_out_.end());
  }
  return joined;
}

TokenDataset TokenDataset::open_shards(const std::filesystem::path& path, std::string_view split,
                                       const TokenDatasetOptions& options) {
  TokenDataset dataset;
  dataset.path_ = path;
  std::error_code code;
  if (std::filesystem::exists(path / kManifestFileName, code)) {
    dataset.open_prepared(split, options);
    return dataset;
  }
  const bool is_directory = std::filesystem::is_directory(path, code);
  if (is_directory) {
    if (const std::optional<std::filesystem::path> directory = find_mds_directory(path, split)) {
      dataset.open_mds(*directory, options);
      return dataset;
    }
  }
  for (const std::filesystem::path& file :
       is_directory ? find_bin_files(path, split, dataset.left_out_) : find_named_files(path)) {
    dataset.add_shard(TokenShard::open(file, options.token_bytes), options);
  }
  if (const ShardMetadata* metadata = dataset.shards_.front().metadata()) {
    dataset.tokenizer_identity_ = metadata->tokenizer;
    dataset.documents_ = metadata->documents;
    dataset.holds_pairs_ = metadata->holds_pairs;
    dataset.holds_prompts_ = metadata->holds_prompts;
  }
  for (const TokenShard& shard : dataset.shards_) {
    if (shard.format() != dataset.shards_.front().format() ||
        shard.token_bytes() != dataset.shards_.front().token_bytes() ||
        (shard.metadata() != nullptr && shard.metadata()->tokenizer != *dataset.tokenizer_identity_)) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the shards are not of one kind: {} was made with another tokenizer or format than {}",
                              shard.path().filename().string(), dataset.shards_.front().path().filename().string()),
                  path.string(), "Give a path or pattern that matches the shards of one dataset only.");
    }
  }
  return dataset;
}

void TokenDataset::open_mds(const std::filesystem::path& directory, const TokenDatasetOptions& options) {
  for (const MdsShard& shard : read_mds_index(directory).shards) {
    if (shard.samples == 0) continue;
    try {
      const std::filesystem::path file = find_mds_file(directory, shard);
      add_shard(TokenShard::open_mds(open_mds_shard(file, shard), file, shard, options.column, options.token_bytes),
                options);
    } catch (const Error& error) {
      const bool is_damage = error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kCorrupt;
      if (!is_damage) throw;
      if (!options.skip_damaged_shards)
        throw Error(error.kind(), error.message(), error.where(),
                    error.hint() + " data.on_damaged_shard=skip leaves such shards out.");
      left_out_.push_back(fmt::format("{}: {}", error.where(), error.message()));
    }
    if (!shards_.empty() && shards_.back().token_bytes() != shards_.front().token_bytes())
      throw Error(ErrorKind::kUnsupported, "the shards hold ids of different types", shards_.back().path().string(),
                  "Prepare the dataset with \"causeway data prepare\", which reads them.");
  }
  if (shards_.empty())
    throw Error(ErrorKind::kCorrupt, "the MDS dataset has no shard with tokens that is whole", directory.string(),
                left_out_.empty() ? "" : fmt::format("The first of them is {}.", left_out_.front()));
}

void TokenDataset::add_shard(TokenShard shard, const TokenDatasetOptions& options) {
  if (options.check_hashes) shard.verify();
  shards_.push_back(std::move(shard));
  shard_offsets_.push_back(token_count_);
  token_count_ += shards_.back().token_count();
}

void TokenDataset::open_prepared(std::string_view split, const TokenDatasetOptions& options) {
  const std::filesystem::path manifest_path = path_ / kManifestFileName;
  const DatasetManifest manifest = parse_manifest(read_text_file(manifest_path), manifest_path.string());
  const auto found = manifest.splits.find(std::string(split));
  if (found == manifest.splits.end() || found->second.shards.empty()) {
    throw Error(
        ErrorKind::kNotFound, fmt::format("the dataset has no split \"{}\"", split), path_.string(),
        fmt::format("It has: {}. Prepare it again with a validation fraction or validation files, or choose one "
                    "of these.",
                    joined_names(manifest.splits)));
  }
  tokenizer_identity_ = manifest.tokenizer;
  documents_ = manifest.documents;
  targets_ = manifest.targets;
  holds_pairs_ = manifest.holds_pairs;
  holds_prompts_ = manifest.holds_prompts;
  for (const ShardEntry& entry : found->second.shards) {
    const std::filesystem::path file = path_ / entry.file;
    add_shard(TokenShard::open(file, options.token_bytes), options);
    const TokenShard& shard = shards_.back();
    if (shard.format() != ShardFormat::kCauseway || shard.token_count() != entry.tokens ||
        shard.stored_hash().hex() != entry.hash || shard.metadata()->tokenizer != manifest.tokenizer ||
        shard.has_targets() != manifest.targets.has_value() ||
        (shard.has_targets() && shard.stored_targets_hash().hex() != entry.targets_hash) ||
        !are_recorded(shard.metadata()->target_weights, manifest.targets)) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("the shard is not the one that {} describes: its size, hash or tokenizer differs",
                              kManifestFileName),
                  file.string(), "Prepare the dataset again with \"causeway data prepare\".");
    }
  }
}

bool TokenDataset::knows_documents() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const TokenShard& shard) { return shard.knows_documents(); });
}

bool TokenDataset::knows_documents(const Source& source) const {
  const auto [first, last] = shards_of(source);
  return std::all_of(shards_.begin() + static_cast<ptrdiff_t>(first), shards_.begin() + static_cast<ptrdiff_t>(last),
                     [](const TokenShard& shard) { return shard.knows_documents(); });
}

std::pair<size_t, size_t> TokenDataset::shards_of(const Source& source) const {
  const auto index_of = [&](uint64_t offset) {
    return static_cast<size_t>(std::ranges::lower_bound(shard_offsets_, offset) - shard_offsets_.begin());
  };
  return {index_of(source.offset), index_of(source.offset + source.token_count)};
}

void TokenDataset::visit_documents(const Source& source,
                                   const std::function<void(uint64_t offset, uint64_t tokens)>& visit) const {
  uint64_t begin = source.offset;
  int32_t last_token_before = -1;
  const auto [first, last] = shards_of(source);
  for (size_t i = first; i < last; ++i) {
    shards_[i].visit_document_starts(last_token_before, [&](uint64_t position) {
      const uint64_t start = shard_offsets_[i] + position;
      if (start > begin) visit(begin, start - begin);
      begin = start;
    });
    last_token_before = shards_[i].token(shards_[i].token_count() - 1);
  }
  visit(begin, source.offset + source.token_count - begin);
}

void TokenDataset::check_vocabulary(int64_t vocabulary_size) const {
  constexpr uint64_t kFirstTokens = 4096;
  std::vector<int32_t> ids;
  for (const TokenShard& shard : shards_) {
    ids.resize(std::min(kFirstTokens, shard.token_count()));
    shard.read(0, ids);
    for (size_t i = 0; i < ids.size(); ++i) {
      // As unsigned, so that an id that does not fit 31 bits is not taken for a small one.
      if (static_cast<int64_t>(static_cast<uint32_t>(ids[i])) < vocabulary_size) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("token id {} is beyond the model's vocabulary of {}", static_cast<uint32_t>(ids[i]),
                              vocabulary_size),
                  fmt::format("{}, token {}", shard.path().string(), i),
                  "Check that the data was made with the model's tokenizer, or give the model a larger vocabulary.");
    }
  }
}

std::string TokenDataset::fingerprint() const {
  std::string identity;
  auto source = sources_.begin();
  for (size_t i = 0; i < shards_.size(); ++i) {
    const TokenShard& shard = shards_[i];
    if (sources_.size() > 1 && source != sources_.end() && source->offset == shard_offsets_[i]) {
      identity += "source\n";
      ++source;
    }
    identity += fmt::format("{} {} {} {}\n", shard_format_name(shard.format()), shard.token_bytes(),
                            shard.token_count(), shard.stored_hash().hex());
    if (shard.has_targets()) identity += fmt::format("targets {}\n", shard.stored_targets_hash().hex());
    if (shard.has_target_weights())
      identity += fmt::format("weights {}\n", fmt::join(shard.metadata()->target_weights, " "));
  }
  if (holds_pairs_) identity += "pairs\n";
  if (holds_prompts_) identity += "prompts\n";
  return hash_text(identity).hex();
}

TokenDataset::Place TokenDataset::locate(uint64_t offset) const {
  CAUSEWAY_CHECK(offset < token_count_, "offset {} of {}", offset, token_count_);
  const auto after = std::upper_bound(shard_offsets_.begin(), shard_offsets_.end(), offset);
  const auto index = static_cast<size_t>(after - shard_offsets_.begin()) - 1;
  return {&shards_[index], offset - shard_offsets_[index]};
}

template <typename T, typename Read>
void TokenDataset::read_pieces(uint64_t offset, std::span<T> values, const Read& read) const {
  CAUSEWAY_CHECK(offset <= token_count_ && values.size() <= token_count_ - offset);
  while (!values.empty()) {
    const Place place = locate(offset);
    const uint64_t count = std::min<uint64_t>(values.size(), place.shard->token_count() - place.position);
    read(*place.shard, place.position, values.first(count));
    values = values.subspan(count);
    offset += count;
  }
}

void TokenDataset::read(uint64_t offset, std::span<int32_t> ids) const {
  read_pieces(offset, ids, [](const TokenShard& shard, uint64_t position, std::span<int32_t> piece) {
    shard.read(position, piece);
  });
}

bool TokenDataset::has_targets() const {
  return std::ranges::any_of(shards_, [](const TokenShard& shard) { return shard.has_targets(); });
}

bool TokenDataset::has_target_weights() const {
  return std::ranges::any_of(shards_, [](const TokenShard& shard) { return shard.has_target_weights(); });
}

void TokenDataset::read_targets(uint64_t offset, std::span<uint8_t> targets) const {
  read_pieces(offset, targets, [](const TokenShard& shard, uint64_t position, std::span<uint8_t> piece) {
    shard.read_targets(position, piece);
  });
}

void TokenDataset::read_target_weights(uint64_t offset, std::span<float> weights) const {
  read_pieces(offset, weights, [](const TokenShard& shard, uint64_t position, std::span<float> piece) {
    shard.read_target_weights(position, piece);
  });
}

uint64_t TokenDataset::count_targets(const Source& source) const {
  std::vector<uint8_t> targets;
  uint64_t count = 0;
  const auto [first, last] = shards_of(source);
  for (size_t i = first; i < last; ++i) {
    const TokenShard& shard = shards_[i];
    if (!shard.has_targets()) {
      count += shard.token_count();
      continue;
    }
    constexpr uint64_t kTargetsAtOnce = uint64_t{1} << 20;
    for (uint64_t position = 0; position < shard.token_count(); position += targets.size()) {
      targets.resize(std::min(kTargetsAtOnce, shard.token_count() - position));
      shard.read_targets(position, targets);
      count += static_cast<uint64_t>(std::ranges::count(targets, uint8_t{1}));
    }
  }
  return count;
}

void TokenDataset::read_document_numbers(uint64_t offset, std::span<int32_t> documents) const {
  int32_t number = 0;
  int32_t last_token_before = -1;
  for (size_t done = 0; done < documents.size();) {
    const Place place = locate(offset + done);
    const uint64_t count = std::min<uint64_t>(documents.size() - done, place.shard->token_count() - place.position);
    const std::span<int32_t> part = documents.subspan(done, count);
    place.shard->read_document_starts(place.position, last_token_before, part);
    if (done == 0) part[0] = 0;  // documents are counted from the window's start
    for (int32_t& document : part) document = number += document;
    done += count;
    if (done < documents.size()) last_token_before = place.shard->token(place.shard->token_count() - 1);
  }
}

std::unique_ptr<Tokenizer> TokenDataset::load_tokenizer() const {
  if (!tokenizer_identity_) {
    throw Error(ErrorKind::kNotFound, "the token files do not say which tokenizer made them", path_.string(),
                "Name the tokenizer: \"bytes\", or the directory of its vocabulary.");
  }
  const bool bytes = tokenizer_identity_->name == "bytes";
  std::error_code code;
  const std::filesystem::path directory = std::filesystem::is_directory(path_, code) ? path_ : path_.parent_path();
  std::unique_ptr<Tokenizer> tokenizer =
      formats::load_tokenizer(bytes ? "bytes" : (directory / kTokenizerDirectoryName).string());
  if (tokenizer->fingerprint() != tokenizer_identity_->fingerprint) {
    throw Error(ErrorKind::kCorrupt, "the tokenizer beside the dataset is not the one its tokens were made with",
                path_.string(), "Prepare the dataset again, or put back the vocabulary files it was prepared with.");
  }
  return tokenizer;
}

bool records_target_weights(const std::filesystem::path& path) {
  try {
    const std::filesystem::path manifest = path / kManifestFileName;
    if (std::error_code code; std::filesystem::is_regular_file(manifest, code)) {
      const std::optional<TargetsRecord> targets = parse_manifest(read_text_file(manifest), manifest.string()).targets;
      return targets && !targets->weights.empty();
    }
    return path.extension() == ".tokens" && TokenShard::open(path).has_target_weights();
  } catch (const Error&) {
    return false;  // whoever opens the data is told
  }
}

std::optional<TokenizerIdentity> recorded_tokenizer(const std::filesystem::path& path) {
  try {
    const std::filesystem::path manifest = path / kManifestFileName;
    if (std::error_code code; std::filesystem::is_regular_file(manifest, code))
      return parse_manifest(read_text_file(manifest), manifest.string()).tokenizer;
    if (path.extension() != ".tokens") return std::nullopt;
    const TokenShard shard = TokenShard::open(path);
    if (shard.metadata() != nullptr) return shard.metadata()->tokenizer;
  } catch (const Error&) {
    // Whoever opens the data is told.
  }
  return std::nullopt;
}

}  // namespace causeway::data
