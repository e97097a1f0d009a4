// Conversations as a dataset: ids and targets, what is cut and left out, what is recorded.
#include <nlohmann/json.hpp>
#include <random>

#include "causeway/data/chat_encoder.h"
#include "causeway/data/inspect.h"
#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

std::filesystem::path chat_fixtures() { return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat"; }

const formats::JsonTokenizer& chat_tokenizer() {
  static const formats::JsonTokenizer tokenizer = formats::JsonTokenizer::load(chat_fixtures());
  return tokenizer;
}

using Targets = std::vector<uint8_t>;

class ChatDataset : public testing::Test {
 protected:
  PrepareOptions options(const std::string& lines) {
    PrepareOptions options;
    options.inputs = {directory_.write("chats.jsonl", lines)};
    options.output = directory_ / "out";
    options.overwrite = true;
    options.chat.emplace();
    return options;
  }
  struct Sample {
    std::vector<int32_t> ids;
    Targets targets;
  };
  static std::vector<Sample> samples_in(const std::filesystem::path& path) {
    const TokenDataset dataset = TokenDataset::open(path);
    std::vector<Sample> samples;
    dataset.visit_documents(dataset.sources().front(), [&](uint64_t offset, uint64_t tokens) {
      Sample& sample = samples.emplace_back();
      sample.ids.resize(tokens);
      sample.targets.resize(tokens);
      dataset.read(offset, sample.ids);
      dataset.read_targets(offset, sample.targets);
    });
    return samples;
  }
  static nlohmann::json expected() { return nlohmann::json::parse(read_text_file(chat_fixtures() / "expected.json")); }

  TemporaryDirectory directory_;
};

TEST_F(ChatDataset, OfAPairTheCompletionIsTrainedOn) {
  const PrepareSummary summary =
      prepare_dataset(options("{\"prompt\": \"abc\", \"completion\": \"de\"}\n"), ByteTokenizer());
  EXPECT_EQ(summary.chat.pairs, 1u);
  EXPECT_EQ(summary.manifest.splits.at("train").targets, 2u);
  const std::vector<Sample> samples = samples_in(directory_ / "out");
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].ids, (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e'}));
  EXPECT_EQ(samples[0].targets, (Targets{0, 0, 0, 1, 1}));
}

// A token that reaches into the completion is trained on, and so is the end of the text.
TEST_F(ChatDataset, ATokenAcrossTheBoundaryIsATarget) {
  const std::unique_ptr<Tokenizer> gpt2 = formats::load_tokenizer(gpt2_directory().string());
  prepare_dataset(options("{\"prompt\": \"The answer: for\", \"completion\": \"ty-two\"}\n"), *gpt2);
  const Sample sample = samples_in(directory_ / "out").at(0);
  std::string trained;
  for (size_t i = 0; i < sample.ids.size(); ++i)
    if (sample.targets[i] != 0) trained += "[" + gpt2->decode({{sample.ids[i]}}) + "]";
  EXPECT_TRUE(trained.starts_with("[ forty]") || trained.starts_with("[for") || trained.starts_with("[ty")) << trained;
  EXPECT_TRUE(trained.ends_with("[<|endoftext|>]")) << trained;
  EXPECT_EQ(gpt2->decode(sample.ids), "The answer: forty-two<|endoftext|>");
}

// What comes first cannot be predicted from anything.
TEST_F(ChatDataset, TheFirstTokenIsNoTarget) {
  prepare_dataset(options("{\"prompt\": \"\", \"completion\": \"abc\"}\n"), ByteTokenizer());
  EXPECT_EQ(samples_in(directory_ / "out").at(0).targets, (Targets{0, 1, 1}));
}

TEST_F(ChatDataset, EitherSideIsCut) {
  PrepareOptions cut =
      options("{\"prompt\": \"abc\", \"completion\": \"defg\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  cut.chat->max_length = 5;
  const PrepareSummary right = prepare_dataset(cut, ByteTokenizer());
  EXPECT_EQ(right.chat.truncated, 1u);
  EXPECT_EQ(right.chat.truncated_tokens, 2u);
  EXPECT_EQ(right.manifest.targets->max_length, 5u);
  EXPECT_EQ(right.manifest.targets->truncation, "right");
  EXPECT_EQ(samples_in(directory_ / "out").at(0).ids, (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e'}));
  cut.chat->truncated_side = TruncatedSide::kLeft;
  EXPECT_EQ(prepare_dataset(cut, ByteTokenizer()).manifest.targets->truncation, "left");
  const Sample left = samples_in(directory_ / "out").at(0);
  EXPECT_EQ(left.ids, (std::vector<int32_t>{'c', 'd', 'e', 'f', 'g'}));
  EXPECT_EQ(left.targets, (Targets{0, 1, 1, 1, 1}));
}

TEST_F(ChatDataset, ASampleWithoutATargetIsShownOrCounted) {
  PrepareOptions cut = options(
      "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a long \\u001bprompt\", \"completion\": \"b\"}\n");
  cut.chat->max_length = 5;
  const Error error = caught([&] { prepare_dataset(cut, ByteTokenizer()); });
  EXPECT_EQ(error.message(), "nothing of the sample is trained on once it is cut: a long \\x1bpromptb");
  EXPECT_EQ(error.where(), (directory_ / "chats.jsonl").string() + ", line 2");
  EXPECT_TRUE(contains(error.hint(), "--skip-without-target"));
  cut.chat->skip_without_target = true;
  const PrepareSummary summary = prepare_dataset(cut, ByteTokenizer());
  EXPECT_EQ(summary.chat.without_target, 1u);
  EXPECT_EQ(summary.chat.truncated, 0u);
  EXPECT_EQ(samples_in(directory_ / "out").size(), 1u);
  cut.inputs = {directory_.write("none.jsonl", "{\"prompt\": \"a\", \"completion\": \"\"}\n")};
  EXPECT_EQ(caught([&] { prepare_dataset(cut, ByteTokenizer()); }).message(),
            "none of the 1 conversations has a token that is trained on");
}

TEST_F(ChatDataset, UnknownRecordsAndOtherFormatsAreErrors) {
  const Error unknown = caught([&] { prepare_dataset(options("{\"text\": \"x\"}\n"), ByteTokenizer()); });
  EXPECT_TRUE(contains(unknown.message(), "its fields are \"text\"")) << unknown.message();
  EXPECT_TRUE(contains(unknown.where(), "chats.jsonl, line 1"));
  const Error untemplated = caught([&] {
    prepare_dataset(options("{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}\n"), ByteTokenizer());
  });
  EXPECT_EQ(untemplated.message(), "the record is a list of messages, and the tokenizer has no chat template");
  PrepareOptions plain = options("");
  plain.inputs = {directory_.write("a.txt", "text\n")};
  EXPECT_TRUE(contains(caught([&] { prepare_dataset(plain, ByteTokenizer()); }).message(),
                       "conversations are read from JSON Lines"));
}

// Lines that are no JSON are skipped as those of other datasets are.
TEST_F(ChatDataset, LinesThatAreNoJsonAreCounted) {
  PrepareOptions some = options("{\"prompt\": \"a\", \"completion\": \"b\"}\n{broken\n");
  EXPECT_EQ(prepare_dataset(some, ByteTokenizer()).skipped_lines, 1u);
  some.strict = true;
  EXPECT_EQ(caught([&] { prepare_dataset(some, ByteTokenizer()); }).kind(), ErrorKind::kCorrupt);
}

TEST_F(ChatDataset, TheManifestSaysHowTargetsCameAbout) {
  prepare_dataset(options("{\"prompt\": \"a\", \"completion\": \"b\"}\n"), ByteTokenizer());
  const std::string text = read_text_file(directory_ / "out/dataset.json");
  const DatasetManifest manifest = parse_manifest(text, "dataset.json");
  ASSERT_TRUE(manifest.targets);
  EXPECT_EQ(manifest.targets->rule, "all");
  EXPECT_TRUE(manifest.targets->templates.empty());
  EXPECT_EQ(print_manifest(manifest), text);
  EXPECT_TRUE(contains(text, "\"version\": 2"));
  // Targets of another shard are not those that the manifest names.
  nlohmann::json other = nlohmann::json::parse(text);
  other["splits"]["train"]["shards"][0]["targets_hash"] = std::string(32, '0');
  directory_.write("out/dataset.json", other.dump());
  EXPECT_TRUE(contains(caught([&] { TokenDataset::open(directory_ / "out"); }).message(), "is not the one that"));
  // A text that says nothing of targets is as it was.
  PrepareOptions plain = options("");
  plain.chat.reset();
  plain.inputs = {directory_.write("a.txt", "text\n")};
  prepare_dataset(plain, ByteTokenizer());
  EXPECT_TRUE(contains(read_text_file(directory_ / "out/dataset.json"), "\"version\": 1"));
  EXPECT_FALSE(contains(read_text_file(directory_ / "out/dataset.json"), "targets"));
}

TEST_F(ChatDataset, InspectionShowsWhatIsTrainedOn) {
  prepare_dataset(
      options("{\"prompt\": \"q\", \"completion\": \"answer\"}\n{\"prompt\": \"second\", \"completion\": \"b\"}\n"),
      ByteTokenizer());
  const DatasetInspection inspection = inspect_dataset(directory_ / "out");
  EXPECT_EQ(inspection.splits.at(0).targets, 7u);
  ASSERT_TRUE(inspection.targets);
  const std::vector<TextSample> samples = sample_texts(TokenDataset::open(directory_ / "out"), ByteTokenizer(), 2, 4);
  ASSERT_EQ(samples.size(), 2u);
  ASSERT_EQ(samples[1].pieces.size(), 2u);
  EXPECT_EQ(samples[0].pieces[1].text, "answer");
  EXPECT_FALSE(samples[1].pieces[0].is_target);
  EXPECT_EQ(samples[1].pieces[0].text, "second");
  EXPECT_TRUE(samples[1].pieces[1].is_target);
}

// Ids and targets of every form, as transformers has them, by a template that marks what is generated and by one that
// does not.
TEST_F(ChatDataset, EqualsTransformersTokenByToken) {
  for (const char* name : {"chat_template.jinja", "plain.jinja"}) {
    PrepareOptions all = options(read_text_file(chat_fixtures() / "chats.jsonl"));
    all.chat->templates = find_chat_templates(chat_fixtures().string(), (chat_fixtures() / name).string());
    const PrepareSummary summary = prepare_dataset(all, chat_tokenizer());
    EXPECT_EQ(summary.chat.rendered, 9u);
    EXPECT_EQ(summary.chat.pairs, 1u);
    const std::vector<Sample> samples = samples_in(directory_ / "out");
    const nlohmann::json want = expected()["samples"];
    ASSERT_EQ(samples.size(), want.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(samples[i].ids, want[i]["ids"].get<std::vector<int32_t>>()) << name << ", sample " << i;
      EXPECT_EQ(samples[i].targets, want[i]["targets"].get<Targets>()) << name << ", sample " << i;
    }
  }
}

TEST_F(ChatDataset, OnlyTheLastTurnWhereAsked) {
  PrepareOptions last = options(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"first\"}, "
      "{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"second\"}]}\n");
  last.chat->templates = find_chat_templates(chat_fixtures().string());
  last.chat->turns = formats::ChatTurns::kLast;
  prepare_dataset(last, chat_tokenizer());
  const std::vector<TextSample> samples = sample_texts(TokenDataset::open(directory_ / "out"), chat_tokenizer(), 1, 1);
  std::string trained;
  for (const TextSample::Piece& piece : samples.at(0).pieces)
    if (piece.is_target) trained += piece.text;
  EXPECT_EQ(trained, "second<|im_end|>\n");
}

TEST_F(ChatDataset, TheBytesDoNotDependOnThreads) {
  std::string lines;
  std::mt19937_64 generator(5);
  for (int i = 0; i < 4000; ++i)
    lines += fmt::format(
        "{{\"messages\": [{{\"role\": \"user\", \"content\": \"{}\"}}, {{\"role\": \"assistant\", "
        "\"content\": \"{}\"}}]}}\n",
        std::string(generator() % 200, 'x'), generator());
  std::vector<std::string> fingerprints;
  for (const int threads : {1, 4}) {
    PrepareOptions all = options(lines);
    all.chat->templates = find_chat_templates(chat_fixtures().string());
    all.threads = threads;
    prepare_dataset(all, chat_tokenizer());
    fingerprints.push_back(TokenDataset::open(directory_ / "out").fingerprint() +
                           read_text_file(directory_ / "out/dataset.json"));
  }
  EXPECT_EQ(fingerprints[0], fingerprints[1]);
}

TEST_F(ChatDataset, TheTemplatesOwnRefusalNamesTheLine) {
  PrepareOptions refused = options("{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}\n");
  refused.chat->templates = {{"default", "{{ raise_exception('roles must alternate') }}", "own.jinja"}};
  const Error error = caught([&] { prepare_dataset(refused, chat_tokenizer()); });
  EXPECT_TRUE(contains(error.message(), "roles must alternate")) << error.message();
  EXPECT_TRUE(contains(error.where(), "chats.jsonl, line 1")) << error.where();
}

TEST_F(ChatDataset, TheDateIsRecordedWhereATemplateAsksForIt) {
  PrepareOptions dated = options("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n");
  dated.chat->templates = {{"default",
                            "Today is {{ strftime_now('%Y') }}.\n{% for m in messages %}{{ m.content }}{% endfor %}",
                            "own.jinja"}};
  dated.chat->date_text = "2024-07-26";
  dated.chat->date = formats::ChatDate::parse("2024-07-26");
  prepare_dataset(dated, chat_tokenizer());
  EXPECT_EQ(TokenDataset::open(directory_ / "out").targets()->date, "2024-07-26");
  dated.chat->templates[0].text = "{% for m in messages %}x{{ m.content }}{% endfor %}";
  prepare_dataset(dated, chat_tokenizer());
  EXPECT_EQ(TokenDataset::open(directory_ / "out").targets()->date, "");
}

// Of the tokenizer's templates the default one, and beside it the one for tools.
TEST_F(ChatDataset, WhichTemplatesAreTaken) {
  const auto taken = [&](const std::string& wanted = {}) {
    std::string names;
    for (const formats::ChatTemplateFile& file : find_chat_templates((directory_ / "hf").string(), wanted))
      names += file.name + "=" + file.text + ";";
    return names;
  };
  std::filesystem::create_directories(directory_ / "hf");
  EXPECT_EQ(taken(), "");
  EXPECT_EQ(caught([&] { taken("rag"); }).kind(), ErrorKind::kNotFound);
  directory_.write("hf/tokenizer_config.json",
                   R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"},
                                         {"name": "default", "template": "d"}]})");
  EXPECT_EQ(taken(), "default=d;tool_use=t;");
  EXPECT_EQ(taken("rag"), "rag=r;");
  EXPECT_EQ(taken(directory_.write("own.jinja", "o").string()), "default=o;");
  const Error unknown = caught([&] { taken("other"); });
  EXPECT_TRUE(contains(unknown.message(), "no chat template \"other\"")) << unknown.message();
  EXPECT_TRUE(contains(unknown.hint(), "tool_use, rag, default")) << unknown.hint();
  directory_.write("hf/tokenizer_config.json",
                   R"({"chat_template": [{"name": "a", "template": "t"}, {"name": "b", "template": "d"}]})");
  EXPECT_TRUE(contains(caught([&] { taken(); }).message(), "none of the tokenizer's chat templates is the default"));
}

ChatSample sample_of(const std::string& chat_template, const std::string& record) {
  ChatOptions options;
  options.templates = {{"default", chat_template, "own.jinja"}};
  const ByteTokenizer tokenizer;
  return ChatEncoder(options, tokenizer, {}).encode(nlohmann::ordered_json::parse(record), "here");
}

std::string trained_text(const ChatSample& sample) {
  std::string text;
  for (size_t i = 0; i < sample.ids.size(); ++i)
    if (sample.weights[i] != 0) text += static_cast<char>(sample.ids[i]);
  return text;
}

// Whether a template reads parts is what it does with them, not which words stand in it.
TEST_F(ChatDataset, PartsAreNeverShownAsAList) {
  const std::string record =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]},
                       {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})";
  // It reads the type of something else.
  EXPECT_EQ(
      trained_text(sample_of(
          "{% for m in messages %}{% set own = {'type': 'x'} %}{% if own.type == 'text' %}!{% endif %}<{{ m.role }}>"
          "{{ m.content }};{% endfor %}",
          record)),
      "ab;");
  // Parts of the user alone.
  EXPECT_EQ(trained_text(sample_of("{% for m in messages %}<{{ m.role }}>{% if m.role == 'user' and m.content is not "
                                   "string %}{% for part in m.content %}{{ part.text }}{% endfor %}{% else %}"
                                   "{{ m.content }}{% endif %};{% endfor %}",
                                   record)),
            "ab;");
  EXPECT_EQ(trained_text(sample_of("{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{{ part['text'] }}."
                                   "{% endfor %};{% endfor %}",
                                   record)),
            "a.b.;");
}

TEST_F(ChatDataset, ContentThatTheTemplateLeavesOutIsAnError) {
  const std::string parts_only =
      "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}"
      "{% endif %}{% endfor %}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const auto record = [](const std::string& answer) {
    return R"({"messages": [{"role": "user", "content": "q"}, )" + answer + "]}";
  };
  const Error error = caught([&] { sample_of(parts_only, record(R"({"role": "assistant", "content": "a"})")); });
  EXPECT_EQ(error.message(), "the chat template writes nothing of the content of message 2, which is to be trained on");
  EXPECT_EQ(error.where(), "here (own.jinja)");
  EXPECT_TRUE(contains(error.hint(), "in parts only"));
  EXPECT_EQ(trained_text(
                sample_of(parts_only, record(R"({"role": "assistant", "content": [{"type": "text", "text": "a"}]})"))),
            "a</s>");
  EXPECT_EQ(trained_text(sample_of(parts_only, record(R"({"role": "assistant", "content": ""})"))), "</s>");
}

TEST_F(ChatDataset, DocumentsReachTheTemplate) {
  EXPECT_EQ(sample_of("{% for d in documents %}[{{ d.text }}]{% endfor %}{% for m in messages %}<{{ m.role }}>"
                      "{{ m.content }};{% endfor %}",
                      R"({"messages": [{"role": "assistant", "content": "a"}], "documents": [{"text": "d"}]})")
                .text,
            "[d]<assistant>a;");
}

TEST_F(ChatDataset, AnswersWithoutAnEndAreCounted) {
  const std::string record =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})";
  const auto without_end = [&](const std::string& end) {
    return sample_of("{% for m in messages %}<{{ m.role }}>{{ m.content }}" + end + "{% endfor %}", record)
        .counts.without_end;
  };
  EXPECT_EQ(without_end("</s>"), 0u);
  EXPECT_EQ(without_end(""), 1u);
  EXPECT_EQ(without_end("{{ '\\n' }}"), 1u) << "a line's end ends no answer";
}

}  // namespace
}  // namespace causeway::data
