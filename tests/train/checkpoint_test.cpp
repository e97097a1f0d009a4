#include "causeway/train/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

CheckpointState state_at(int64_t step) {
  CheckpointState state;
  state.step = step;
  state.model = {{"family", "gpt"}, {"layers", 2}, {"attention", {{"heads", 4}}}};
  state.optimizer = "adamw";
  state.tokenizer_fingerprint = "0123";
  state.rng_seed = UINT64_MAX;
  state.rng_step = static_cast<uint64_t>(step);
  state.data = {{"cursor", step * 32}};
  state.schedule = {{"kind", "cosine"}};
  state.trainer = {{"loss", 3.25}, {"note", "caf\xc3\xa9"}};
  return state;
}

std::vector<float> sequence(size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// Saves two small tensors over two files and five chunks.
fs::path save_small(const fs::path& run, int64_t step, int64_t keep_last = 3) {
  const auto weight = sequence(12, static_cast<float>(step)), bias = sequence(3, 0.5f);
  CheckpointWriter writer(run, state_at(step), {keep_last, 40, 16});
  writer.add({"weight", DType::kF32, {4, 3}}, bytes_of(weight));
  writer.add({"bias", DType::kF32, {3}}, bytes_of(bias));
  return writer.commit();
}

void read_everything(const fs::path& directory) {
  const CheckpointReader reader(directory);
  for (const std::string& name : reader.names()) {
    const CheckpointTensor& tensor = reader.tensor(name);
    std::vector<std::byte> bytes(checked_volume(tensor.shape, size_bytes(tensor.dtype)).value());
    reader.read(name, bytes);
  }
}

std::string problems_of(const fs::path& directory) {
  std::string text;
  for (const CheckpointProblem& problem : verify_checkpoint(directory)) text += problem.describe() + "\n";
  return text;
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(directory)) names.push_back(item.path().filename());
  std::ranges::sort(names);
  return names;
}

std::vector<int64_t> steps_of(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(run)) steps.push_back(entry.step);
  return steps;
}

void overwrite(const fs::path& path, std::string_view content) { FileWriter(path).write(content); }

// Flips one bit of the byte in place; doing it again restores the file.
void flip_byte(const fs::path& path, size_t position) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(position));
  const auto value = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(position));
  file.put(static_cast<char>(value ^ (1 << (position % 8))));
  ASSERT_TRUE(file.flush().good());
}

// The newest checkpoint of a run, after the checks of who goes on from it; nothing where there is none.
std::optional<CheckpointEntry> find_latest(const fs::path& run_directory) {
  std::optional<CheckpointEntry> latest;
  read_newest_checkpoint(run_directory, [&](const CheckpointEntry& entry) {
    require_step_of_its_name(CheckpointReader(entry.directory), entry);
    latest = entry;
  });
  return latest;
}

// As in an archive of somebody else's run.
TEST(Checkpoint, IsNotSavedThroughALinkOutOfTheRun) {
  const TemporaryDirectory directory;
  for (const int64_t step : {1, 2}) save_small(directory / "mine", step);
  fs::create_directories(directory / "run");
  fs::create_symlink("../mine/checkpoints", directory / "run/checkpoints");
  EXPECT_THAT(message_of([&] { save_small(directory / "run", 3, 1); }),
              HasSubstr("checkpoints: the checkpoint of step 3 "
                        "was not saved: a link here leads out"));
  EXPECT_EQ(list_checkpoints(directory / "mine").size(), 2u);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory / "mine/checkpoints"), fs::directory_iterator()), 2);
  // A checkpoint that is a link, and what a save left that is one, are removed as links.
  const fs::path run = directory / "linked", kept = directory / "mine/checkpoints/step-00000001";
  fs::create_directories(run / "checkpoints");
  for (const char* name : {"step-00000001", ".saving-step-00000003", ".deleting-step-00000000"})
    fs::create_symlink(kept, run / "checkpoints" / name);
  fs::create_symlink("../../mine", run / "checkpoints/.saving-step-00000002");
  save_small(run, 3, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(run / "checkpoints"), fs::directory_iterator()), 1);
  read_everything(kept);
  // Elsewhere in the run is fine.
  fs::remove(directory / "run/checkpoints");
  fs::create_directories(directory / "run/kept");
  fs::create_symlink("kept", directory / "run/checkpoints");
  read_everything(save_small(directory / "run", 3));
}

TEST(Checkpoint, RoundTrip) {
  const TemporaryDirectory run;
  const auto weight = sequence(24, 1);
  const std::vector<uint16_t> half{1, 2, 3};
  const std::vector<int64_t> scalar{-7};
  CheckpointWriter writer(run.path(), state_at(100));
  writer.add({"model.half", DType::kBF16, {3}}, bytes_of(half));
  writer.add({"model.weight", DType::kF32, {2, 3, 4}}, bytes_of(weight));
  writer.add({"scalar", DType::kI64, {}}, bytes_of(scalar));
  writer.add({"empty", DType::kF32, {0, 5}}, std::span<const std::byte>());
  const fs::path saved = writer.commit();
  EXPECT_EQ(saved, run / "checkpoints" / "step-00000100");
  EXPECT_THAT(problems_of(saved), IsEmpty());

  const auto latest = find_latest(run.path());
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->step, 100);
  const CheckpointReader reader(latest->directory);
  const CheckpointState &state = reader.state(), expected = state_at(100);
  EXPECT_EQ(state.step, expected.step);
  EXPECT_EQ(state.model, expected.model);
  EXPECT_EQ(state.optimizer, expected.optimizer);
  EXPECT_EQ(state.tokenizer_fingerprint, expected.tokenizer_fingerprint);
  EXPECT_EQ(state.rng_seed, expected.rng_seed);
  EXPECT_EQ(state.rng_step, expected.rng_step);
  EXPECT_EQ(state.data, expected.data);
  EXPECT_EQ(state.schedule, expected.schedule);
  EXPECT_EQ(state.trainer, expected.trainer);

  EXPECT_THAT(reader.names(), ElementsAre("empty", "model.half", "model.weight", "scalar"));
  EXPECT_EQ(reader.tensor("model.half").dtype, DType::kBF16);
  std::vector<float> weight_read(24);
  reader.read("model.weight", std::as_writable_bytes(std::span(weight_read)));
  EXPECT_EQ(weight_read, weight);
  std::vector<int64_t> scalar_read(1);
  reader.read("scalar", std::as_writable_bytes(std::span(scalar_read)));
  EXPECT_EQ(scalar_read, scalar);
  reader.read("empty", {});
  EXPECT_THAT(message_of([&] { reader.tensor("model.weigth"); }), HasSubstr("Did you mean 'model.weight'?"));
  EXPECT_THROW(reader.read("scalar", {}), InternalError);

  // The tensor files stand on their own.
  const SafetensorsFile file(saved / "tensors-00001-of-00001.safetensors");
  EXPECT_TRUE(std::ranges::equal(file.data("model.weight"), bytes_of(weight)));
}

TEST(Checkpoint, NoCheckpointYet) {
  const TemporaryDirectory run;
  EXPECT_EQ(find_latest(run.path()), std::nullopt);
  EXPECT_EQ(find_latest(run / "absent"), std::nullopt);
  EXPECT_THAT(message_of([&] { CheckpointReader(run / "step-00000001"); }), HasSubstr("there is no checkpoint"));
}

TEST(Checkpoint, AnyBoxIsReadWhateverBoxesWereSaved) {
  const TemporaryDirectory run;
  const std::vector<int64_t> shape{6, 5, 4};
  const auto values = sequence(120, 0);
  std::mt19937 random(5);
  int64_t step = 0;
  for (const uint64_t chunk_bytes : {8u, 48u, 100u, 4096u}) {
    CheckpointWriter writer(run.path(), state_at(++step), {1, 200, chunk_bytes});
    // Four parts, cut in the first and the last dimension, as a mesh of 2 x 2 would hold them.
    for (const int64_t row : {0, 2}) {
      for (const int64_t column : {0, 3}) {
        const Box part{{row, 0, column}, {row == 0 ? 2 : 4, 5, column == 0 ? 3 : 1}};
        std::vector<std::byte> local(checked_volume(part.shape, 4).value());
        copy_common_box(bytes_of(values), whole_box(shape), local, part, 4);
        writer.add_part({"x", DType::kF32, shape}, part, [=](uint64_t offset, std::span<std::byte> bytes) {
          ASSERT_LE(bytes.size(), chunk_bytes);
          std::ranges::copy(std::span(local).subspan(offset, bytes.size()), bytes.begin());
        });
      }
    }
    const fs::path saved = writer.commit();
    EXPECT_THAT(problems_of(saved), IsEmpty());
    const CheckpointReader reader(saved);
    for (int trial = 0; trial < 50; ++trial) {
      Box box;
      for (const int64_t n : shape) {
        box.offset.push_back(static_cast<int64_t>(random() % n));
        box.shape.push_back(static_cast<int64_t>(random() % (n - box.offset.back() + 1)));
      }
      std::vector<float> read(checked_volume(box.shape).value(), -1), expected = read;
      reader.read_box("x", box, std::as_writable_bytes(std::span(read)));
      copy_common_box(bytes_of(values), whole_box(shape), std::as_writable_bytes(std::span(expected)), box, 4);
      EXPECT_EQ(read, expected) << describe_box(box);
    }
  }
}

TEST(Checkpoint, PartsMustCoverTheTensor) {
  const TemporaryDirectory run;
  const auto values = sequence(4, 0);
  CheckpointWriter writer(run.path(), state_at(1));
  writer.add_part({"x", DType::kF32, {4}}, {{0}, {2}}, [](uint64_t, std::span<std::byte>) {});
  EXPECT_THROW(writer.commit(), InternalError);
  EXPECT_THROW(writer.add({"y", DType::kF32, {5}}, bytes_of(values)), InternalError);
  EXPECT_THROW(writer.add_part({"x", DType::kF32, {5}}, {{2}, {2}}, [](uint64_t, std::span<std::byte>) {}),
               InternalError);
}

TEST(Checkpoint, OptionsAreChecked) {
  EXPECT_THAT(message_of([] { CheckpointWriter("x", state_at(1), {.keep_last = 0}); }),
              HasSubstr("cannot keep the last 0 checkpoints"));
  EXPECT_THAT(message_of([] { CheckpointWriter("x", state_at(-1)); }), HasSubstr("cannot be of step -1"));
}

TEST(Checkpoint, EveryByteIsChecked) {
  const TemporaryDirectory run;
  const fs::path saved = save_small(run.path(), 7);
  ASSERT_THAT(names_in(saved),
              ElementsAre("manifest.json", "tensors-00001-of-00002.safetensors", "tensors-00002-of-00002.safetensors"));
  for (const std::string& name : names_in(saved)) {
    const std::string content = read_text_file(saved / name);
    for (size_t i = 0; i < content.size(); ++i) {
      flip_byte(saved / name, i);
      const std::string message = message_of([&] { read_everything(saved); });
      EXPECT_THAT(message, HasSubstr(name)) << "byte " << i;
      EXPECT_THAT(problems_of(saved), HasSubstr(name)) << "byte " << i;
      flip_byte(saved / name, i);
    }
    for (const size_t length : {size_t{0}, size_t{5}, content.size() / 2, content.size() - 1}) {
      overwrite(saved / name, content.substr(0, length));
      EXPECT_THAT(message_of([&] { read_everything(saved); }), HasSubstr(name)) << "length " << length;
      EXPECT_THAT(problems_of(saved), HasSubstr(name)) << "length " << length;
    }
    overwrite(saved / name, content + "\n");
    EXPECT_THAT(problems_of(saved), HasSubstr(name));
    fs::remove(saved / name);
    EXPECT_THAT(message_of([&] { read_everything(saved); }), HasSubstr(name));
    EXPECT_THAT(problems_of(saved), HasSubstr(name));
    overwrite(saved / name, content);
  }
  EXPECT_THAT(problems_of(saved), IsEmpty());
}

TEST(Checkpoint, AttachedFilesAreKeptAndChecked) {
  const TemporaryDirectory run;
  CheckpointWriter writer(run.path(), state_at(1));
  writer.attach("config.json", "{\"a\": 1}");
  writer.attach("empty", "");
  const fs::path directory = writer.commit();
  EXPECT_EQ(read_text_file(directory / "config.json"), "{\"a\": 1}");
  EXPECT_THAT(problems_of(directory), IsEmpty());
  std::ofstream(directory / "config.json") << "{\"a\": 2}";
  EXPECT_THAT(problems_of(directory), HasSubstr("config.json: the file does not match its hash"));
  EXPECT_THAT(message_of([&] { CheckpointReader{directory}; }), HasSubstr("the checkpoint is damaged"));
  fs::remove(directory / "empty");
  EXPECT_THAT(problems_of(directory), HasSubstr("empty: cannot open"));
}

TEST(Checkpoint, DamageNamesTheChunkAndOffersTheStepBefore) {
  const TemporaryDirectory run;
  const fs::path first = save_small(run.path(), 10), second = save_small(run.path(), 20);
  const fs::path newest = save_small(run.path(), 30);
  const CheckpointReader intact(newest);
  const auto& chunk = intact.tensor("weight").chunks[2];
  const std::string file = intact.manifest().files[chunk.file].name;

  flip_byte(newest / file, chunk.begin + 1);
  EXPECT_EQ(problems_of(newest),
            fmt::format("{}: tensor 'weight' chunk 2: bytes {}..{} of {} do not match their hash\n", file, chunk.begin,
                        chunk.end, file));
  const std::string message = message_of([&] { read_everything(newest); });
  EXPECT_THAT(message, HasSubstr("tensor 'weight' chunk 2"));
  EXPECT_THAT(message, HasSubstr("The newest intact checkpoint before it is " + second.string()));

  // Boxes that do not touch the damaged chunk can still be read.
  std::vector<std::byte> row(12);
  EXPECT_NO_THROW(CheckpointReader(newest).read_box("weight", {{0, 0}, {1, 3}}, row));

  flip_byte(newest / kManifestName, 50);
  flip_byte(second / kManifestName, 50);
  const std::string latest = message_of([&] { find_latest(run.path()); });
  EXPECT_THAT(latest, HasSubstr((newest / kManifestName).string()));
  EXPECT_THAT(latest, HasSubstr("the checkpoint is damaged: the manifest does not match its own hash"));
  EXPECT_THAT(latest, HasSubstr("The newest intact checkpoint before it is " + first.string()));
  flip_byte(first / kManifestName, 50);
  EXPECT_THAT(message_of([&] { find_latest(run.path()); }), HasSubstr("There is no intact checkpoint before it"));
}

TEST(Checkpoint, RenamedToAnotherStep) {
  const TemporaryDirectory run;
  fs::rename(save_small(run.path(), 10), run / "checkpoints" / "step-00000020");
  EXPECT_THAT(message_of([&] { find_latest(run.path()); }), HasSubstr("is of step 10, not of the step in its name"));
}

TEST(Checkpoint, AnotherModel) {
  const TemporaryDirectory run;
  const CheckpointReader reader(save_small(run.path(), 1));
  auto model = state_at(1).model;
  EXPECT_NO_THROW(reader.require_model(model));
  const auto message = [&] { return message_of([&] { reader.require_model(model); }); };
  model["layers"] = 24;
  EXPECT_THAT(message(), HasSubstr("of another model: layers is 2 in the checkpoint and 24 in this run"));
  model["attention"]["heads"] = 8;
  EXPECT_THAT(message(), HasSubstr("attention.heads is 4 in the checkpoint and 8 in this run"));
  model = state_at(1).model;
  model["window"] = 128;
  EXPECT_THAT(message(), HasSubstr("window is absent in the checkpoint and 128 in this run"));
  EXPECT_EQ(first_difference({{"a", {1, 2}}}, {{"a", {1, 3}}}), "a[1] is 2 in the checkpoint and 3 in this run");
  EXPECT_EQ(first_difference(1, "x"), "the configuration is 1 in the checkpoint and \"x\" in this run");
  EXPECT_EQ(first_difference({{"a", 1}}, {{"a", 1}}), std::nullopt);
  EXPECT_EQ(model_fingerprint({{"a", 1}, {"b", 2}}), model_fingerprint({{"b", 2}, {"a", 1}}));
}

TEST(Checkpoint, OtherTensors) {
  const TemporaryDirectory run;
  const CheckpointReader reader(save_small(run.path(), 1));
  const NamedTensorSpec weight{"weight", DType::kF32, {4, 3}}, bias{"bias", DType::kF32, {3}};
  const auto message = [&](std::vector<NamedTensorSpec> specs) {
    return message_of([&] { reader.require_tensors(specs); });
  };
  EXPECT_EQ(message({weight, bias}), "no error");
  EXPECT_THAT(message({weight}), HasSubstr("the checkpoint has tensor 'bias', which this run lacks"));
  EXPECT_THAT(message({weight, bias, {"z", DType::kF32, {}}}), HasSubstr("this run needs tensor 'z'"));
  EXPECT_THAT(message({bias, {"weight", DType::kBF16, {4, 3}}}),
              HasSubstr("tensor 'weight' is f32 [4, 3] in the checkpoint and bf16 [4, 3] in this run"));
}

TEST(Checkpoint, VersionFromTheFuture) {
  const TemporaryDirectory run;
  const fs::path saved = save_small(run.path(), 1);
  std::string text = read_text_file(saved / kManifestName);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 9");
  overwrite(saved / kManifestName, text);
  const std::string message = message_of([&] { CheckpointReader reader(saved); });
  EXPECT_THAT(message, HasSubstr("the checkpoint has format version 9, and this program reads up to version 1"));
  EXPECT_THAT(message, HasSubstr("Use the newer program that wrote it."));
}

TEST(Checkpoint, KeepsTheLastAndNeverTheDamagedOnly) {
  const TemporaryDirectory run;
  for (const int64_t step : {1, 2, 3, 4}) save_small(run.path(), step, 2);
  EXPECT_THAT(steps_of(run.path()), ElementsAre(3, 4));
  flip_byte(run / "checkpoints" / "step-00000004" / kManifestName, 20);
  save_small(run.path(), 5, 2);
  EXPECT_THAT(steps_of(run.path()), ElementsAre(3, 4, 5));
  save_small(run.path(), 6, 1);
  EXPECT_THAT(steps_of(run.path()), ElementsAre(6));
  EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step-00000006"));
}

TEST(Checkpoint, LeftoversOfCrashedSavesAreRemoved) {
  const TemporaryDirectory run;
  save_small(run.path(), 1);
  fs::create_directories(run / "checkpoints" / ".saving-step-00000002");
  overwrite(run / "checkpoints" / ".saving-step-00000002" / "tensors-00001-of-00001.safetensors", "half");
  fs::create_directories(run / "checkpoints" / ".deleting-step-00000000");
  EXPECT_EQ(find_latest(run.path())->step, 1);
  save_small(run.path(), 2);
  EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step-00000001", "step-00000002"));
}

TEST(Checkpoint, SavingAStepAgainReplacesItAndLaterOnesAreSetAside) {
  const TemporaryDirectory run;
  for (const int64_t step : {1, 2, 3}) save_small(run.path(), step);
  const auto other = sequence(12, 100);
  CheckpointWriter writer(run.path(), state_at(2));
  writer.add({"weight", DType::kF32, {4, 3}}, bytes_of(other));
  const fs::path saved = writer.commit();
  EXPECT_THAT(names_in(run / "checkpoints"),
              ElementsAre("step-00000001", "step-00000002", "superseded-step-00000003-1"));
  EXPECT_EQ(find_latest(run.path())->step, 2);
  std::vector<float> read(12);
  CheckpointReader(saved).read("weight", std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, other);
}

TEST(Checkpoint, WhatARunHasLeftBehindIsSetAsideHoweverFarItWent) {
  const TemporaryDirectory run;
  for (const int64_t step : {1, 2, 3, 4}) save_small(run.path(), step, 4);
  const auto other = sequence(12, 100);
  CheckpointWriter writer(run.path(), state_at(4), {.keep_last = 2, .previous_step = 1});
  writer.add({"weight", DType::kF32, {4, 3}}, bytes_of(other));
  const fs::path saved = writer.commit();
  EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step-00000001", "step-00000004", "superseded-step-00000002-1",
                                                         "superseded-step-00000003-1", "superseded-step-00000004-1"));
  std::vector<float> read(12);
  CheckpointReader(saved).read("weight", std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, other);
}

TEST(Checkpoint, FailingSourceLeavesTheOthersAlone) {
  const TemporaryDirectory run;
  const fs::path before = save_small(run.path(), 1, 1);
  CheckpointWriter writer(run.path(), state_at(2), {.keep_last = 1});
  writer.add({"x", DType::kF32, {4}}, [](uint64_t, std::span<std::byte>) {
    throw Error(ErrorKind::kResource, "the device was lost", "gpu:0", "Restart it.");
  });
  const std::string message = message_of([&] { writer.commit(); });
  EXPECT_THAT(message, HasSubstr("gpu:0: the checkpoint of step 2 was not saved: the device was lost"));
  EXPECT_THAT(message, HasSubstr("Restart it. The newest checkpoint, " + before.string() + ", is untouched."));
  EXPECT_THAT(problems_of(before), IsEmpty());
  EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step-00000001"));
}

TEST(Checkpoint, TextThatIsNotUtf8) {
  const TemporaryDirectory run;
  CheckpointState state = state_at(1);
  state.trainer = {{"note", "\xff"}};
  EXPECT_THAT(message_of([&] { CheckpointWriter(run.path(), state).commit(); }), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(steps_of(run.path()), IsEmpty());
}

// Runs `body` in a child process and returns its wait status; the child never returns from it.
template <typename Body>
pid_t start_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(99);
    }
    ::_exit(0);
  }
  return child;
}

TEST(Checkpoint, DiskFullLeavesThePreviousIntact) {
  const TemporaryDirectory run;
  const fs::path before = save_small(run.path(), 1, 1);
  const pid_t child = start_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, 1 << 16};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::vector<float> large(1 << 16);
    CheckpointWriter writer(run.path(), state_at(2), {.keep_last = 1});
    writer.add({"large", DType::kF32, {1 << 16}}, bytes_of(large));
    const std::string message = message_of([&] { writer.commit(); });
    const bool is_clear = message.find("the checkpoint of step 2 was not saved: cannot write") != std::string::npos &&
                          message.find("largest file size") != std::string::npos &&
                          message.find("step-00000001, is untouched") != std::string::npos;
    ::_exit(is_clear ? 0 : 1);
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(problems_of(before), IsEmpty());
  EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step-00000001"));
}

// A process that saves over and over is killed at random instants. Whatever it had reported as saved must be there,
// and the newest checkpoint must be whole.
TEST(Checkpoint, KilledAtAnyInstant) {
  using Clock = std::chrono::steady_clock;
  const TemporaryDirectory run;
  constexpr int64_t kCount = 40000;
  std::mt19937 random(std::random_device{}());
  const auto deadline = Clock::now() + std::chrono::seconds(3);
  // Longer on a slow disk, so that some saves are finished there too.
  std::chrono::microseconds longest_life(150000);
  int64_t newest = 0;
  int kills = 0;
  while (Clock::now() < deadline || kills <= 3 || newest == 0) {
    int reports[2];
    ASSERT_EQ(::pipe(reports), 0);
    const pid_t child = start_child([&] {
      for (int64_t step = newest + 1;; ++step) {
        const std::vector<int64_t> values(kCount, step);
        CheckpointWriter writer(run.path(), state_at(step), {2, 100000, 50000});
        writer.add({"a", DType::kI64, {kCount}}, bytes_of(values));
        writer.add({"b", DType::kI64, {kCount / 4, 4}}, bytes_of(values));
        writer.commit();
        if (::write(reports[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    });
    ::close(reports[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest_life.count()));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ++kills;
    int64_t reported = newest;
    while (::read(reports[0], &reported, sizeof reported) == sizeof reported) {
    }
    ::close(reports[0]);

    const auto latest = find_latest(run.path());
    if (!latest) {
      ASSERT_EQ(reported, 0);
      longest_life += longest_life / 2;
      continue;
    }
    ASSERT_GE(latest->step, reported);
    newest = latest->step;
    ASSERT_THAT(problems_of(latest->directory), IsEmpty());
    const CheckpointReader reader(latest->directory);
    std::vector<int64_t> values(kCount);
    reader.read("b", std::as_writable_bytes(std::span(values)));
    ASSERT_EQ(values, std::vector<int64_t>(kCount, newest));
    ASSERT_LE(steps_of(run.path()).size(), 3u);
  }
}

// A run that keeps one checkpoint deletes it under whoever reads it.
TEST(Checkpoint, TheNewestIsReadAgainWhereItWasPruned) {
  const TemporaryDirectory run;
  const std::vector<int64_t> values(10, 7);
  const auto save = [&](int64_t step) {
    CheckpointWriter writer(run.path(), state_at(step), {.keep_last = 1});
    writer.add({"a", DType::kI64, {10}}, bytes_of(values));
    writer.commit();
  };
  EXPECT_FALSE(read_newest_checkpoint(run.path(), [](const CheckpointEntry&) {}));
  save(1);
  std::vector<int64_t> steps;
  std::vector<bool> in_place;
  EXPECT_TRUE(read_newest_checkpoint(run.path(), [&](const CheckpointEntry& entry) {
    steps.push_back(entry.step);
    const DirectoryIdentity directory(entry.directory);
    if (entry.step < 3) save(entry.step + 1);
    if (steps.size() == 3) save(3);  // of the same name, and another one
    in_place.push_back(directory.is_in_place());
    if (!in_place.back()) throw Error(ErrorKind::kCorrupt, "a file is missing");
  }));
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 3}));
  EXPECT_EQ(in_place, (std::vector<bool>{false, false, false, true}));
  // What is damaged and still there is damaged.
  int readings = 0;
  EXPECT_THROW(read_newest_checkpoint(run.path(),
                                      [&](const CheckpointEntry&) {
                                        ++readings;
                                        throw Error(ErrorKind::kCorrupt, "a file is damaged");
                                      }),
               Error);
  EXPECT_EQ(readings, 1);
}

// As a job leaves them that was killed after each save, before it deleted the oldest.
TEST(Checkpoint, OldOnesAreDeletedBeforeASaveToo) {
  const TemporaryDirectory run;
  const std::vector<int64_t> values(10, 7);
  for (int64_t step = 1; step <= 5; ++step) {
    CheckpointWriter writer(run.path(), state_at(step), {.keep_last = 5});
    writer.add({"a", DType::kI64, {10}}, bytes_of(values));
    writer.commit();
  }
  CheckpointWriter writer(run.path(), state_at(6), {.keep_last = 2});
  writer.add({"a", DType::kI64, {10}},
             [](uint64_t, std::span<std::byte>) { throw Error(ErrorKind::kIo, "the device disappeared"); });
  EXPECT_THROW(writer.commit(), Error);
  EXPECT_EQ(steps_of(run.path()), (std::vector<int64_t>{4, 5}));
}

// Valid manifests with a few bytes changed and the hash made to hold again either parse or give an Error.
TEST(CheckpointManifest, MutationsNeverCrash) {
  const TemporaryDirectory run;
  const std::string text = read_text_file(save_small(run.path(), 3) / kManifestName);
  const size_t body_size = text.rfind(",\n \"hash\"");
  const std::string_view alphabet = "{}[]\",:0123456789-.eE\\u abtnlf\xff";
  std::mt19937 random(2);
  int accepted = 0, refused = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string body = text.substr(0, body_size);
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % body.size();
      const char value = alphabet[random() % alphabet.size()];
      switch (random() % 6) {
        case 0:
          body.erase(at, 1);
          break;
        case 1:
          body.insert(at, 1, value);
          break;
        case 2:
          body.erase(at, random() % 200);
          break;
        default:
          body[at] = value;
      }
      if (body.empty()) break;
    }
    const std::string whole = body + ",\n \"hash\": \"" + hash_text(body).hex() + "\"\n}\n";
    try {
      const CheckpointManifest manifest = parse_manifest(whole, "manifest.json");
      for (const auto& [name, tensor] : manifest.tensors) {
        for (const CheckpointChunk& chunk : tensor.chunks) EXPECT_LT(chunk.file, manifest.files.size());
      }
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(refused, 2000);
}

TEST(CheckpointManifest, ContradictionsAreNamed) {
  const TemporaryDirectory run;
  const std::string text = read_text_file(save_small(run.path(), 3) / kManifestName);
  const auto parse_with = [&](const std::string& from, const std::string& to) {
    std::string body = text.substr(0, text.rfind(",\n \"hash\""));
    const size_t at = body.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    body.replace(at, from.size(), to);
    return message_of(
        [&] { parse_manifest(body + ",\n \"hash\": \"" + hash_text(body).hex() + "\"\n}\n", "manifest.json"); });
  };
  EXPECT_EQ(parse_with("\"step\": 3", "\"step\": 3"), "no error");
  EXPECT_THAT(parse_with("causeway-checkpoint", "other"), HasSubstr("not the manifest of a checkpoint"));
  EXPECT_THAT(parse_with("\"version\": 1", "\"version\": 0"), HasSubstr("unknown version"));
  EXPECT_THAT(parse_with("\"step\": 3", "\"step\": -3"), HasSubstr("'step' is not a non-negative integer"));
  EXPECT_THAT(parse_with("\"optimizer\"", "\"optimiser\""), HasSubstr("has no field 'optimizer'"));
  EXPECT_THAT(parse_with("\"layers\": 2", "\"layers\": 3"), HasSubstr("'model' does not match its fingerprint"));
  EXPECT_THAT(parse_with("\"tensors-00001", "\"../tensors-00001"), HasSubstr("does not name a file"));
  EXPECT_THAT(parse_with("\"dtype\": \"F32\"", "\"dtype\": \"F64\""),
              HasSubstr("tensor 'bias' has the unknown dtype 'F64'"));
  EXPECT_THAT(parse_with("\"file\": 1", "\"file\": 2"), HasSubstr("is in file 2, which is not listed"));
  EXPECT_THAT(parse_with("\"begin\": ", "\"begin\": 1"), HasSubstr("tensor 'bias' chunk 0 cannot take bytes"));
  EXPECT_THAT(parse_with("\"header_bytes\": ", "\"header_bytes\": 9"), HasSubstr("has a header longer than itself"));
  const std::string shape = "\"dtype\": \"F32\",\n   \"shape\": [\n    ";
  EXPECT_THAT(parse_with(shape + "3", shape + "4"), HasSubstr("tensor 'bias' is not covered by its chunks"));
  EXPECT_THAT(parse_with(shape + "3", shape + "4611686018427387904"), HasSubstr("'bias' has an impossible shape"));
}

}  // namespace
}  // namespace causeway::train
