// Prompts to the letter. What is expected of the files in tests/fixtures/evaluation is what lm-evaluation-harness
// 0.4.13 makes of them; tools/compare_with_lm_eval.py compares the two.
#include "causeway/evaluation/task_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/evaluation/task_requests.h"
#include "tests/fixtures/error_message.h"

namespace causeway::evaluation {
namespace {

using ::testing::HasSubstr;

std::vector<std::vector<TextRequest>> fixture_requests(const std::string& name, size_t shots = 0) {
  const Task task = load_task(name, CAUSEWAY_SOURCE_DIR "/tests/fixtures/evaluation");
  return task_requests(task, task, {.shots = shots});
}

// Of one document in another form.
std::vector<TextRequest> requests_of(const std::string& name, const std::string& document) {
  const TaskFormat& format = *find_task_format(name);
  const auto json = nlohmann::json::parse(document);
  Task task{name, &format, "one.jsonl", "", {json}, {read_question(format, json, "one.jsonl, line 1")}, {"line 1"}};
  return task_requests(task, task, {}).front();
}

std::string refusal(const std::string& name, const std::string& document) {
  return message_of([&] { requests_of(name, document); });
}

using Requests = std::vector<TextRequest>;

TEST(TaskFormat, Arc) {
  const auto requests = fixture_requests("arc_challenge");
  const std::string context = "Question: Which of these conducts heat best?\nAnswer:";
  EXPECT_EQ(requests[0], (Requests{{context, " wool"}, {context, " a copper wire"}, {context, " dry air"}}));
  EXPECT_EQ(requests[2][0], (TextRequest{"Question: Water turns to ice at\nAnswer:", " 0 °C."}));
  EXPECT_EQ(requests_of("arc_easy", R"({"query": "Question: Is it?", "choices": ["yes", "no"], "gold": 1})"),
            (Requests{{"Question: Is it?\nAnswer:", " yes"}, {"Question: Is it?\nAnswer:", " no"}}));
}

TEST(TaskFormat, Piqa) {
  const Requests expected = {{"Question: To cut rope,\nAnswer:", " take a knife."},
                             {"Question: To cut rope,\nAnswer:", " take a spoon."}};
  EXPECT_EQ(requests_of("piqa", R"({"goal": "To cut rope,", "sol1": "take a knife.", "sol2": "take a spoon.",
                                    "label": 0})"),
            expected);
  EXPECT_EQ(requests_of("piqa", R"({"query": "Question: To cut rope,\n", "choices": ["take a knife.", "take a spoon."],
                                    "gold": 0})"),
            expected);
}

TEST(TaskFormat, HellaSwag) {
  const auto requests = fixture_requests("hellaswag");
  const std::string river = "Crossing a river: A woman stands on the bank. She";
  EXPECT_EQ(requests[0], (Requests{{river, " takes off her shoes."},
                                   {river, " is made of paper and glass."},
                                   {river, "  flies away."},
                                   {river, " sings to the stones."}}));
  EXPECT_EQ(requests[1][0].context, "Mending a fence: How to mend a fence. Find the broken boards. A man kneels");
  EXPECT_EQ(requests[2][3], (TextRequest{"Baking: The oven is hot. The baker in paris", " reads. a book."}));
  EXPECT_EQ(requests[3][0].context, "Rowing: Two boats race. Élan");
  EXPECT_EQ(requests_of("hellaswag", R"({"query": "Rowing: He", "choices": ["rows.", "sinks."], "gold": 0})")[1],
            (TextRequest{"Rowing: He", " sinks."}));
}

TEST(TaskFormat, BoolQ) {
  const auto requests = fixture_requests("boolq");
  const std::string context = "Ducks are birds.\nBats are mammals.\nQuestion: is a bat a bird?\nAnswer:";
  EXPECT_EQ(requests[1], (Requests{{context, " no"}, {context, " yes"}}));
  EXPECT_EQ(requests_of("boolq", R"({"query": "Passage: Ducks are birds.\nBats are mammals.\nQuestion: is a bat a )"
                                 R"(bird?\n", "choices": ["no", "yes"], "gold": 0})"),
            requests[1]);
}

TEST(TaskFormat, CopaHasTwoSpaces) {
  const auto requests = fixture_requests("copa");
  EXPECT_EQ(requests[0], (Requests{{"The river rose over its banks because", "  it had rained for a week."},
                                   {"The river rose over its banks because", "  the sun was shining."}}));
  EXPECT_EQ(requests[1][1], (TextRequest{"The boy dropped the jug therefore", "  it broke on the stones."}));
  EXPECT_EQ(requests[2][1].continuation, "  évora is a town.");
  EXPECT_EQ(requests_of("copa", R"({"query": "The jug fell, therefore", "choices": ["It broke.", "he ran."],
                                    "gold": 0})"),
            (Requests{{"The jug fell therefore", "  it broke."}, {"The jug fell therefore", "  he ran."}}));
  EXPECT_EQ(requests_of("copa", R"({"query": "So, because", "choices": ["A", "B"], "gold": 0})")[0].context,
            "So because");
}

// A full stop may be a mark of several bytes, and a premise is of characters.
TEST(TaskFormat, CopaTakesAwayTheLastCharacter) {
  const auto context = [](const std::string& premise) {
    return requests_of("copa", R"({"premise": ")" + premise +
                                   R"(", "choice1": "ΑΣ", "choice2": "İz", "question": "effect", "label": 0})")
        .front()
        .context;
  };
  EXPECT_EQ(context("我的眼睛变得又红又肿。"), "我的眼睛变得又红又肿 therefore");
  EXPECT_EQ(context("He said \u201cno.\u201d\u3000"), "He said “no. therefore");
  EXPECT_EQ(context("e\u0301"), "e therefore");
  EXPECT_EQ(context(""), " therefore");
}

TEST(TaskFormat, WinogradCountsCharacters) {
  const auto first = [](const std::string& text, int place, const std::string& option) {
    return requests_of("wsc273", R"({"text": ")" + text + R"(", "pronoun": "he", "pronoun_loc": )" +
                                     std::to_string(place) + R"(, "options": [")" + option + R"(", "B"], "label": 0})")
        .front();
  };
  // The word is the first of any space, and the place two before is a character's.
  EXPECT_EQ(first("Zoë fell.\u3000he ran", 10, "The\u00a0boy"), (TextRequest{"Zoë fell.\u3000The\u00a0boy", "  ran"}));
  EXPECT_EQ(first("Zoë fell,\u3000he ran", 10, "The\u00a0boy"), (TextRequest{"Zoë fell,\u3000the\u00a0boy", "  ran"}));
  // Two spaces became one, and what stands there is not the pronoun: as many characters are passed over.
  EXPECT_EQ(first("a  b ☃é ran", 4, "A man"), (TextRequest{"a b a man", "  ran"}));
  EXPECT_EQ(first("Zoë ran and  he", 13, "The man"), (TextRequest{"Zoë ran and hthe man", " "}));
}

TEST(TaskFormat, Winogrande) {
  const auto requests = fixture_requests("winogrande");
  const Requests expected = {{"The rope held the boat until the rope", " tore."},
                             {"The rope held the boat until the boat", " tore."}};
  EXPECT_EQ(requests[2], expected);
  EXPECT_EQ(requests_of("winogrande", R"({"context_options": ["The rope held the boat until the rope", )"
                                      R"("The rope held the boat until the boat"], "continuation": "tore.", )"
                                      R"("gold": 0})"),
            expected);
}

TEST(TaskFormat, WinogradHasTwoSpacesButBeforeAFullStop) {
  const auto requests = fixture_requests("wsc273");
  EXPECT_EQ(requests[0], (Requests{{"The crow took the bread from the hen because the crow", "  was hungry."},
                                   {"The crow took the bread from the hen because the hen", "  was hungry."}}));
  EXPECT_EQ(requests[1][1], (TextRequest{"Paul lent Olaf the boat. Olaf's", "  father was angry with him."}));
  EXPECT_EQ(requests[2][0].continuation, " .");
  EXPECT_EQ(requests[3][0], (TextRequest{"Zoë asked Ines for the map. Zoë", "  gave it to her."}));
  const std::string options = R"({"context_options": ["a crow", "a hen"], "gold": 0, "continuation": )";
  EXPECT_EQ(requests_of("winograd_wsc", options + R"("was hungry."})"),
            (Requests{{"a crow", "  was hungry."}, {"a hen", "  was hungry."}}));
  EXPECT_EQ(requests_of("winograd_wsc", options + R"("."})")[0].continuation, " .");
  EXPECT_EQ(requests_of("winograd_wsc", options + R"("\"Dibs!\" was slow."})")[0].continuation,
            "  \"Dibs!\" was slow.");
}

TEST(TaskFormat, Lambada) {
  const auto requests = fixture_requests("lambada_openai");
  EXPECT_EQ(requests[2],
            (Requests{{"The ferry left at six, and whoever came later had to wait for the next", " ferry"}}));
  EXPECT_EQ(requests[3], (Requests{{"", " Stop"}}));
  EXPECT_EQ(requests_of("lambada", R"({"context": "wait for the", "continuation": "ferry"})"),
            (Requests{{"wait for the", " ferry"}}));
}

TEST(TaskFormat, TasksOfUnknownNamesAreTakenAsTheyStand) {
  const auto form = [](const char* document) {
    return format_of_fields(nlohmann::json::parse(document), "mine.jsonl, line 1").names.front();
  };
  EXPECT_EQ(form(R"({"query": "", "choices": [], "gold": 0})"), "multiple_choice");
  EXPECT_EQ(form(R"({"context_options": [], "continuation": "", "gold": 0})"), "schema");
  EXPECT_EQ(form(R"({"context": "", "continuation": ""})"), "cloze");
  EXPECT_EQ(
      message_of([&] { form(R"({"text": ""})"); }),
      "mine.jsonl, line 1: the document is not of a form that is known\n  A task of your own has the fields query, "
      "choices, gold; or context_options, continuation, gold; or context, continuation (docs/evaluate.md).");
  EXPECT_EQ(requests_of("multiple_choice", R"({"query": "It is:", "choices": ["so", "Not"], "gold": 0})")[1],
            (TextRequest{"It is:", " Not"}));
}

// As the harness puts them: the right answer behind the delimiter, whatever it begins with.
TEST(TaskFormat, ExamplesStandBeforeTheDocument) {
  const auto copa = fixture_requests("copa", 2);
  EXPECT_EQ(copa[0][0].context,
            "She had lost her key therefore  she waited on the step.\n\nThe lamp went out because  the oil was gone."
            "\n\nThe river rose over its banks because");
  EXPECT_EQ(
      copa[1][1].context,
      "The river rose over its banks because  it had rained for a week.\n\nThe lamp went out because  the oil was "
      "gone.\n\nThe boy dropped the jug therefore");
  EXPECT_EQ(fixture_requests("wsc273", 2)[2][0].context,
            "The crow took the bread from the hen because the crow  was hungry.\n\nZoë asked Ines for the map. Ines  "
            "gave it to her.\n\nThe ferry passed the raft, though the wind was against the ferry");
  EXPECT_EQ(fixture_requests("lambada_openai", 2)[3][0],
            (TextRequest{"\"You will need a lamp,\" she said. \"It is dark down there.\" So he lit the  lamp\n\nHe "
                         "looked for the key in every drawer, and in the last one lay the  key\n\n",
                         " Stop"}));
}

TEST(TaskFormat, SaysWhatIsWrongWithADocument) {
  EXPECT_EQ(refusal("piqa", R"({"goal": "a", "sol1": "b"})"),
            "one.jsonl, line 1: the document lacks fields of piqa\n  It must have goal, sol1, sol2, label; or query, "
            "choices, gold.");
  EXPECT_THAT(refusal("piqa", R"({"goal": 3, "sol1": "b", "sol2": "c", "label": 0})"),
              HasSubstr("\"goal\" is a JSON number, not a string"));
  for (const char* gold : {"2", "-1", "0.5", "true", "\"x\"", "null"})
    EXPECT_THAT(refusal("arc_easy", std::string(R"({"query": "a", "choices": ["b", "c"], "gold": )") + gold + "}"),
                HasSubstr("\"gold\" is no whole number from 0 to 1"))
        << gold;
  EXPECT_THAT(refusal("arc_easy", R"({"query": "a", "choices": ["b"], "gold": 0})"),
              HasSubstr("\"choices\" is not a list of two strings or more"));
  const std::string arc = R"({"question": "a", "choices": {"text": ["b", "c"], "label": )";
  EXPECT_THAT(refusal("arc_easy", arc + R"(["A", "B"]}, "answerKey": "C"})"),
              HasSubstr("\"answerKey\" is none of the labels under \"choices\""));
  EXPECT_THAT(refusal("arc_easy", arc + R"(["A", "B", "C"]}, "answerKey": "C"})"),
              HasSubstr("\"choices\" has not as many texts as labels"));
  EXPECT_THAT(refusal("arc_easy", R"({"question": "a", "choices": [], "answerKey": "C"})"),
              HasSubstr("\"choices\" is a JSON array, not an object"));
  EXPECT_THAT(refusal("winogrande", R"({"sentence": "a", "option1": "b", "option2": "c", "answer": "1"})"),
              HasSubstr("\"sentence\" has no blank (_)"));
  EXPECT_THAT(refusal("winogrande", R"({"sentence": "a _", "option1": "b", "option2": "c", "answer": ""})"),
              HasSubstr("\"answer\" is neither \"1\" nor \"2\""));
  EXPECT_THAT(refusal("copa", R"({"premise": "a.", "choice1": "b", "choice2": "c", "question": "why", "label": 0})"),
              HasSubstr("\"question\" is neither \"cause\" nor \"effect\""));
  EXPECT_THAT(refusal("copa", R"({"premise": "a.", "choice1": "", "choice2": "c", "question": "cause", "label": 0})"),
              HasSubstr("\"choice1\" is empty"));
  EXPECT_THAT(refusal("wsc273", R"({"text": "a it", "pronoun": "it", "pronoun_loc": 2, "options": [" ", "c"],
                                    "label": 0})"),
              HasSubstr("\"options\" has one without a word"));
  EXPECT_THAT(refusal("wsc273", R"({"text": "a it", "pronoun": "it", "pronoun_loc": 6, "options": ["b", "c"],
                                    "label": 0})"),
              HasSubstr("\"pronoun_loc\" is no whole number from 0 to 5"));
  EXPECT_THAT(refusal("wsc273", R"({"text": "", "pronoun": "it", "pronoun_loc": 1, "options": ["b", "c"],
                                    "label": 0})"),
              HasSubstr("\"pronoun_loc\" is no place of the pronoun"));
}

}  // namespace
}  // namespace causeway::evaluation
