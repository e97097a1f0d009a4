#include "causeway/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "causeway/base/error.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A file with this header text, its length and `data_bytes` of data.
std::vector<std::byte> make_file(std::string_view header, size_t data_bytes) {
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

std::string parse_message(std::string_view header, size_t data_bytes) {
  return message_of([&] { parse_safetensors_header(make_file(header, data_bytes), "some.safetensors"); });
}

TEST(Safetensors, LayoutToTheByte) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory / "a.safetensors", {{"b", DType::kU8, {3}}, {"a", DType::kF32, {2}}});
  writer.write("b", 0, bytes_of(std::array<uint8_t, 3>{1, 2, 3}));
  writer.write("a", 0, bytes_of(std::array<float, 2>{1.0f, -2.0f}));
  writer.finish();
  std::string json = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                     R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(json.size());
  expected += json;
  expected += std::string("\0\0\x80\x3f\0\0\0\xc0\1\2\3", 11);
  EXPECT_EQ(read_text_file(directory / "a.safetensors"), expected);
  EXPECT_EQ(writer.file_bytes(), expected.size());
  EXPECT_EQ(writer.data_offset("b"), expected.size() - 3);
}

TEST(Safetensors, RoundTripOfEveryDtypeAndShape) {
  const TemporaryDirectory directory;
  std::vector<NamedTensorSpec> specs;
  for (const DType dtype : kAllDTypes) specs.push_back({fmt::format("t.{}", dtype_name(dtype)), dtype, {3, 5}});
  specs.push_back({"scalar", DType::kF32, {}});
  specs.push_back({"empty", DType::kF32, {4, 0}});
  specs.push_back({"quote\" \\ \n\xc3\xa9", DType::kBF16, {1}});
  std::mt19937 random(3);
  std::map<std::string, std::vector<std::byte>> content;
  {
    SafetensorsWriter writer(directory / "m.safetensors", specs, {{"format", "pt"}, {"note", "x"}});
    for (auto spec = specs.rbegin(); spec != specs.rend(); ++spec) {  // any order
      size_t count = size_bytes(spec->dtype);
      for (const int64_t n : spec->shape) count *= n;
      auto& bytes = content[spec->name];
      bytes.resize(count);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
      const size_t half = count / 2;  // any pieces
      writer.write(spec->name, half, std::span(bytes).subspan(half));
      writer.write(spec->name, 0, std::span(bytes).first(half));
    }
    writer.finish();
  }
  const SafetensorsFile file(directory / "m.safetensors");
  EXPECT_EQ(file.names().size(), specs.size());
  EXPECT_EQ(file.header().metadata.at("note"), "x");
  EXPECT_EQ(file.header().data_begin % 8, 0u);
  for (const NamedTensorSpec& spec : specs) {
    EXPECT_EQ(file.dtype(spec.name), spec.dtype);
    EXPECT_EQ(file.entry(spec.name).shape, spec.shape);
    EXPECT_EQ(file.entry(spec.name).begin % size_bytes(spec.dtype), 0u);
    const auto data = file.data(spec.name);
    EXPECT_TRUE(std::ranges::equal(data, content[spec.name])) << spec.name;
  }
}

TEST(Safetensors, EmptyFileIsValid) {
  EXPECT_EQ(parse_message("{}", 0), "no error");
  EXPECT_EQ(parse_message("{\"__metadata__\":{}}    ", 0), "no error");
}

TEST(Safetensors, EveryRuleOfTheFormatIsChecked) {
  const auto file = [](std::string_view name) { return "some.safetensors: " + std::string(name); };
  EXPECT_THAT(message_of([] { parse_safetensors_header({}, "some.safetensors"); }),
              HasSubstr(file("0 bytes are too few")));
  std::vector<std::byte> huge(16);
  const uint64_t length = 100'000'001;
  std::memcpy(huge.data(), &length, 8);
  EXPECT_THAT(message_of([&] { parse_safetensors_header(huge, "some.safetensors"); }), HasSubstr("limit of 100 MB"));
  auto shortened = make_file("{}    ", 0);
  shortened.pop_back();
  EXPECT_THAT(message_of([&] { parse_safetensors_header(shortened, "some.safetensors"); }),
              HasSubstr("the header says it has 6 bytes, but only 5 follow"));
  EXPECT_THAT(parse_message(" {}", 0), HasSubstr("does not start with '{'"));
  EXPECT_THAT(parse_message("", 0), HasSubstr("does not start with '{'"));
  EXPECT_THAT(parse_message("{\"a\":", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_message("{\"a\xff\":1}", 0), HasSubstr("not valid JSON"));
  const std::string tensor = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_THAT(parse_message("{\"a\":" + tensor + ",\"a\":" + tensor + "}", 8), HasSubstr("has the key 'a' twice"));
  EXPECT_THAT(parse_message("{\"a\":[[[[1]]]]}", 8), HasSubstr("nested too deeply"));
  EXPECT_THAT(parse_message("{\"a\":3}", 0), HasSubstr("tensor 'a' is not described by an object"));
  EXPECT_THAT(parse_message("{\"__metadata__\":{\"x\":1}}", 0), HasSubstr("__metadata__ 'x' is not a string"));
  EXPECT_THAT(parse_message("{\"__metadata__\":1}", 0), HasSubstr("__metadata__ is not an object"));

  const auto with = [](std::string_view dtype, std::string_view shape, std::string_view offsets, size_t data_bytes) {
    return parse_message(fmt::format(R"({{"a":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets),
                         data_bytes);
  };
  EXPECT_EQ(with("\"F32\"", "[2]", "[0,8]", 8), "no error");
  EXPECT_THAT(with("\"F33\"", "[2]", "[0,8]", 8), HasSubstr("tensor 'a' has the unknown dtype \"F33\""));
  EXPECT_THAT(with("7", "[2]", "[0,8]", 8), HasSubstr("unknown dtype 7"));
  EXPECT_THAT(with("\"F32\"", "2", "[0,8]", 8), HasSubstr("shape is not a list"));
  EXPECT_THAT(with("\"F32\"", "[-2]", "[0,8]", 8), HasSubstr("shape must hold non-negative integers"));
  EXPECT_THAT(with("\"F32\"", "[2.0]", "[0,8]", 8), HasSubstr("shape must hold non-negative integers"));
  EXPECT_THAT(with("\"F32\"", "[18446744073709551615]", "[0,8]", 8), HasSubstr("too large"));
  EXPECT_THAT(with("\"F32\"", "[4611686018427387904,4]", "[0,0]", 0), HasSubstr("does not take the 0 bytes"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[0]", 8), HasSubstr("data_offsets is not a pair"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[8,0]", 8), HasSubstr("byte range 8..0"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[0,16]", 8), HasSubstr("byte range 0..16, but the file holds 8"));
  EXPECT_THAT(with("\"F32\"", "[3]", "[0,8]", 8),
              HasSubstr("dtype F32 and shape [3] does not take the 8 bytes given to it"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[0,8]", 9), HasSubstr("the tensors take 8 bytes, but the file holds 9"));
  EXPECT_THAT(with("\"F4\"", "[3]", "[0,1]", 1), HasSubstr("does not take the 1 bytes"));
  EXPECT_EQ(with("\"F4\"", "[4]", "[0,2]", 2), "no error");
  EXPECT_THAT(parse_message(R"({"a":{"dtype":"F32","shape":[2]}})", 8), HasSubstr("tensor 'a' has no data_offsets"));
  EXPECT_THAT(parse_message(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1),
              HasSubstr("unknown field 'x'"));

  const auto two = [](int b_begin, int b_end) {
    return parse_message(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},)"
                                     R"("b":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}}}})",
                                     b_begin, b_end),
                         9);
  };
  EXPECT_THAT(two(5, 9), HasSubstr("tensor 'b' starts at byte 5 of the data, where 4 was expected (a hole)"));
  EXPECT_THAT(two(3, 7), HasSubstr("tensor 'b' starts at byte 3 of the data, where 4 was expected (an overlap)"));
}

TEST(Safetensors, NamesAndDtypesThatCannotBeServed) {
  const TemporaryDirectory directory;
  const auto file_bytes = make_file(R"({"layer.weight":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8);
  FileWriter(directory / "x.safetensors").write(file_bytes);
  const SafetensorsFile file(directory / "x.safetensors");
  EXPECT_EQ(file.entry("layer.weight").dtype_name, "F64");
  EXPECT_THAT(message_of([&] { file.dtype("layer.weight"); }), HasSubstr("has dtype F64, which cannot be used here"));
  EXPECT_THAT(message_of([&] { file.data("layer.weigth"); }), HasSubstr("Did you mean 'layer.weight'?"));
  EXPECT_THAT(message_of([&] { SafetensorsFile(directory / "absent.safetensors"); }), HasSubstr("No such file"));
}

TEST(Safetensors, WriterRefusesWhatCannotBeStored) {
  const TemporaryDirectory directory;
  const auto write = [&](std::vector<NamedTensorSpec> specs) {
    return message_of([&] { SafetensorsWriter(directory / "w.safetensors", specs); });
  };
  EXPECT_THAT(write({{"a", DType::kF32, {1}}, {"a", DType::kF32, {1}}}), HasSubstr("'a' is given twice"));
  EXPECT_THAT(write({{"__metadata__", DType::kF32, {1}}}), HasSubstr("reserved"));
  EXPECT_THAT(write({{"a", DType::kF32, {-1}}}), HasSubstr("impossible shape [-1]"));
  EXPECT_THAT(write({{"a\xff", DType::kF32, {1}}}), HasSubstr("not valid UTF-8"));
  SafetensorsWriter writer(directory / "w.safetensors", {{"a", DType::kF32, {2}}});
  writer.write("a", 0, bytes_of(std::array<float, 1>{1}));
  EXPECT_THROW(writer.finish(), InternalError);
  EXPECT_THROW(writer.write("a", 4, bytes_of(std::array<float, 2>{1, 2})), InternalError);
}

TEST(SafetensorsModel, ShardsWithAnIndex) {
  const TemporaryDirectory directory;
  const std::vector<NamedTensorSpec> specs = {
      {"a", DType::kF32, {4}}, {"b", DType::kF32, {4}}, {"c", DType::kF32, {20}}, {"d", DType::kU8, {1}}};
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  SafetensorsModelWriter writer(directory / "model", specs, 32);
  writer.write("d", 0, bytes_of(std::array<uint8_t, 1>{9}));
  writer.write("a", 0, bytes_of(values).first(16));
  writer.write("b", 0, bytes_of(values).subspan(16, 16));
  writer.write("c", 0, bytes_of(values));
  writer.finish();

  const auto model_directory = directory / "model";
  EXPECT_THAT(read_text_file(model_directory / "model.safetensors.index.json"), HasSubstr("\"total_size\": 113"));
  for (const auto& path : {model_directory, model_directory / "model.safetensors.index.json"}) {
    const SafetensorsModel model(path);
    EXPECT_THAT(model.names(), ElementsAre("a", "b", "c", "d"));
    EXPECT_TRUE(std::ranges::equal(model.data("b"), bytes_of(values).subspan(16, 16)));
    EXPECT_TRUE(std::ranges::equal(model.data("c"), bytes_of(values)));
    EXPECT_EQ(model.dtype("d"), DType::kU8);
  }
  EXPECT_EQ(SafetensorsFile(model_directory / "model-00001-of-00003.safetensors").names().size(), 2u);
  EXPECT_THAT(message_of([&] { SafetensorsModelWriter(model_directory, specs); }), HasSubstr("already holds a model"));
}

TEST(SafetensorsModel, SmallModelIsOneFile) {
  const TemporaryDirectory directory;
  SafetensorsModelWriter writer(directory.path(), {{"a", DType::kU8, {1}}});
  writer.write("a", 0, bytes_of(std::array<uint8_t, 1>{9}));
  writer.finish();
  EXPECT_FALSE(std::filesystem::exists(directory / "model.safetensors.index.json"));
  EXPECT_THAT(SafetensorsModel(directory.path()).names(), ElementsAre("a"));
}

std::filesystem::path write_bytes(const std::filesystem::path& path, const std::string& tensor, uint8_t value) {
  std::filesystem::create_directories(path.parent_path());
  SafetensorsWriter writer(path, {{tensor, DType::kU8, {1}}});
  writer.write(tensor, 0, bytes_of(std::array<uint8_t, 1>{value}));
  writer.finish();
  return path;
}

TEST(SafetensorsModel, OneFileCountsBeforeAnIndex) {
  const TemporaryDirectory directory;
  write_bytes(directory / "model-00001-of-00001.safetensors", "a", 1);
  FileWriter(directory / "model.safetensors.index.json")
      .write(std::string_view(R"({"weight_map":{"a":"model-00001-of-00001.safetensors"}})"));
  const auto value = [&] { return static_cast<int>(SafetensorsModel(directory.path()).data("a")[0]); };
  EXPECT_EQ(value(), 1);
  write_bytes(directory / "model.safetensors", "a", 2);
  EXPECT_EQ(value(), 2);
  std::filesystem::remove(directory / "model-00001-of-00001.safetensors");
  EXPECT_EQ(value(), 2);
  std::filesystem::remove(directory / "model.safetensors");
  EXPECT_THAT(message_of([&] { value(); }), HasSubstr("model-00001-of-00001.safetensors: cannot open"));
}

TEST(SafetensorsModel, ShardsMayLieInFoldersAndNowhereElse) {
  const TemporaryDirectory directory;
  const std::filesystem::path model = directory / "hub/snapshots/1";
  write_bytes(model / "sub/x.safetensors", "a", 1);
  write_bytes(directory / "hub/blobs/0123", "a", 2);
  write_bytes(directory / "outside/x.safetensors", "a", 3);
  std::filesystem::create_directory_symlink("../../../outside", model / "way_out");
  std::filesystem::create_directory_symlink("sub", model / "way_in");
  std::filesystem::create_symlink("../../../../outside/x.safetensors", model / "sub/out.safetensors");
  std::filesystem::create_symlink("../../../blobs/0123", model / "sub/blob.safetensors");
  const auto value = [&](const std::string& file) {
    const nlohmann::json index = {{"weight_map", {{"a", file}}}};
    FileWriter(model / "model.safetensors.index.json").write(index.dump());
    return static_cast<int>(SafetensorsModel(model).data("a")[0]);
  };
  EXPECT_EQ(value("sub/x.safetensors"), 1);
  EXPECT_EQ(value("way_in/x.safetensors"), 1);
  EXPECT_EQ(value("sub/blob.safetensors"), 2);  // as in the hub's cache
  for (const std::string& file :
       {std::string("sub/out.safetensors"), std::string("way_out/x.safetensors"),
        std::string("sub/../sub/x.safetensors"), std::string("../1/sub/x.safetensors"), std::string(".."),
        std::string("."), std::string("./sub/x.safetensors"), std::string(), (model / "sub/x.safetensors").string()})
    EXPECT_THAT(message_of([&] { value(file); }), HasSubstr("which is not within its directory")) << file;
}

TEST(SafetensorsModel, HasAllThatItsFilesHold) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x.safetensors", "a", 1);
  SafetensorsWriter both(directory / "y.safetensors", {{"a", DType::kU8, {1}}, {"b", DType::kU8, {1}}});
  for (const char* name : {"a", "b"}) both.write(name, 0, bytes_of(std::array<uint8_t, 1>{1}));
  both.finish();
  const auto open = [&](std::string_view index) {
    FileWriter(directory / "model.safetensors.index.json").write(index);
    return SafetensorsModel(directory.path());
  };
  EXPECT_THAT(open(R"({"weight_map":{"c":"x.safetensors","d":"y.safetensors"}})").names(), ElementsAre("a", "b"));
  std::filesystem::remove(directory / "x.safetensors");
  write_bytes(directory / "x.safetensors", "a", 2);
  EXPECT_THAT(message_of([&] { open(R"({"weight_map":{"c":"x.safetensors","d":"y.safetensors"}})"); }),
              HasSubstr("the files x.safetensors and y.safetensors hold tensor 'a', and not the same"));
}

TEST(SafetensorsModel, NamesWhatADirectoryHasInstead) {
  const TemporaryDirectory directory;
  FileWriter(directory / "pytorch_model.bin").write(std::string_view("x"));
  EXPECT_THAT(message_of([&] { SafetensorsModel(directory.path()); }), HasSubstr("There is pytorch_model.bin, which is "
                                                                                 "not read: save the model again"));
  FileWriter(directory / "model-00001-of-00002.safetensors").write(std::string_view("x"));
  EXPECT_THAT(message_of([&] { SafetensorsModel(directory.path()); }),
              HasSubstr("There is model-00001-of-00002.safetensors: name that file, or fetch "
                        "model.safetensors.index.json beside it."));
}

TEST(SafetensorsModel, BadIndexes) {
  const TemporaryDirectory directory;
  SafetensorsWriter writer(directory / "x.safetensors", {{"a", DType::kU8, {1}}});
  writer.write("a", 0, bytes_of(std::array<uint8_t, 1>{9}));
  writer.finish();
  const auto open = [&](std::string_view index) {
    FileWriter(directory / "model.safetensors.index.json").write(index);
    return message_of([&] { SafetensorsModel(directory.path()); });
  };
  EXPECT_EQ(open(R"({"weight_map":{"a":"x.safetensors"}})"), "no error");
  EXPECT_THAT(open("{"), HasSubstr("the index is not valid JSON"));
  EXPECT_THAT(open("[]"), HasSubstr("no weight_map"));
  EXPECT_THAT(open(R"({"weight_map":{"a":1}})"), HasSubstr("no file name for tensor 'a'"));
  EXPECT_EQ(open(R"({"weight_map":{"b":"x.safetensors"}})"), "no error");
  const SafetensorsModel model(directory.path());
  EXPECT_THAT(model.names(), ElementsAre("a"));
  EXPECT_THAT(model.names_without_data(), ElementsAre("b"));
  EXPECT_THAT(message_of([&] { model.entry("b"); }), HasSubstr("'b' in x.safetensors, which does not hold it"));
  EXPECT_THAT(open(R"({"weight_map":{"a":"y.safetensors"}})"), HasSubstr("y.safetensors: cannot open"));
  const TemporaryDirectory empty;
  EXPECT_THAT(message_of([&] { SafetensorsModel(empty.path()); }), HasSubstr("there is no model.safetensors"));
}

// Valid files with a few bytes changed, cut or inserted either parse or give an Error. The copy has no slack behind it,
// so that a sanitizer sees a read past its end.
TEST(Safetensors, MutatedFilesNeverCrash) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"c":{"dtype":"U8","shape":[0],"data_offsets":[26,26]}})";
  const std::vector<std::byte> valid = make_file(header, 26);
  const std::string_view alphabet = "{}[]\",:0123456789-.eE\\u F_\xff";
  std::mt19937 random(1);
  int accepted = 0, refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<std::byte> file = valid;
    for (unsigned edits = 1 + random() % 3; edits > 0 && !file.empty(); --edits) {
      const size_t at = random() % file.size();
      const std::byte value = random() % 2 == 0 ? static_cast<std::byte>(random())
                                                : static_cast<std::byte>(alphabet[random() % alphabet.size()]);
      switch (random() % 8) {
        case 0:
          file.erase(file.begin() + static_cast<ptrdiff_t>(at));
          break;
        case 1:
          file.insert(file.begin() + static_cast<ptrdiff_t>(at), value);
          break;
        case 2:
          file.resize(at);
          break;
        default:
          file[at] = value;
      }
    }
    file.shrink_to_fit();
    try {
      const SafetensorsHeader parsed = parse_safetensors_header(file, "mutated");
      uint64_t total = 0;
      for (const auto& [name, tensor] : parsed.tensors) total += tensor.end - tensor.begin;
      EXPECT_EQ(parsed.data_begin + total, file.size());
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace causeway::formats
