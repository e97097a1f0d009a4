"""Texts for what implementations of tokenizers get wrong: runs of spaces before words, contractions, Unicode classes
and spaces, digits of other scripts, combining marks, emoji sequences, long runs, ten scripts, and seeded random mixtures
of all these. The tools that make fixtures of tokenizers or compare with another implementation share them.
"""
import random

CHOSEN = [
    "Hello, world!", " Hello", "  Hello", "   Hello   world   ", "\n", "\n\n", "\n\n\nword", "a\n b\n  c\n   d", "\t\tx",
    "tab\tand\r\nreturn\r", " ", "  ", "x ", "x  ", " \n \n x", "\u00a0x", " \u00a0x", "\u00a0 x", "\u2003\u2003word",
    "\u3000\u3000\u4f60\u597d", "a\u2028b\u2029c", "\u0085x", "\u200bzero\u200bwidth", "\u180ex \u180e y", "\ufeffmark",
    "\x1c\x1d\x1e\x1f controls \x00\x01\x7f",
    "I'm you're they've we'll he'd it's don't", "I'M YOU'RE THEY'VE WE'LL HE'D IT'S DON'T", "''s '' s ' s 'sm 'tell 'really",
    "'rest 'verb 'mind 'llama 'dog 'till", "rock 'n' roll", "x'", "x' s", "\u2019s \u2019t", " 's 't", "  's", "a's's's",
    "1234567890", "3.14159 -2,718e10", "12abc34", " 12 abc 34", "\u0661\u0662\u0663 \u096a\u096b \u00bd\u00b2\u2167\u3007",
    "\u2460\u2461 x\u00b2 \u216b", "caf\u00e9 na\u00efve \u00fcber \u00c5ngstr\u00f6m", "cafe\u0301 e\u0301e\u0301",
    "\u0418\u0432\u0430\u043d \u0438\u0434\u0451\u0442", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f",
    "\ud55c\uad6d\uc5b4 \ub744\uc5b4\uc4f0\uae30", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643",
    "\u05e9\u05dc\u05d5\u05dd\u05be\u05e2\u05d5\u05dc\u05dd", "\U0001f600\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1ec\U0001f1e7 \U0001f44d\U0001f3fd \u2764\ufe0f", "\U0001d400\U0001d7ce\U0001f130", "\U00010400 \U0001e900 \U00020000",
    "\U0010ffff\U000e0001\uffff\ufffd", "\u01c5\u02b0\u1d2c\u2c7c\ua78b", "\u1e9e\u0130\u0131\ufb01",
    "<|endoftext|>", "a<|endoftext|>b", "_snake_case_ CamelCase kebab-case", "http://example.com/a?b=c&d=%20e#f",
    "def f(x):\n    return x**2  # square\n\n\nclass A:\n\tpass\n", "if (a && b || !c) { return x[i]->y; }",
    "....... !!!??? ---===+++", "a" * 200, "ab" * 150, " " * 100 + "x", "\n" * 50, "!" * 90, "0" * 77, "\u4e00" * 60,
    "\u00e9" * 70, "the the the the", "SolidGoldMagikarp PsyNetMessage", "antidisestablishmentarianism", "\u2581\u2581x",
]

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", "  \n\t", ".,;:!?'\"()[]{}<>@#$%^&*-_=+|\\/~`",
    "stmdrevl'", "\u00a0\u2003\u3000\u2028\u0085\u200b\u202f\u205f\u1680", "\u00e9\u00fc\u00df\u00f1\u0142\u0416\u044f\u03a9",
    "\u0301\u0308\u0345\u20dd\ufe0f", "\u0661\u096a\u00bd\u2167\u2460\U0001d7ce", "\u4f60\u597d\u3042\u30a2\uac00\u0e01\u0915\u05d0\u0627",
    "\U0001f600\u200d\U0001f3fd\u2764", "\u20ac\u00a3\u2211\u2192\u2500\u00ab\u00bb\u2014\u2026",
]


def random_texts(count):
    generator = random.Random(20240917)
    for _ in range(count):
        text = ""
        for _ in range(generator.randrange(1, 12)):
            alphabet = generator.choice(ALPHABETS)
            text += "".join(generator.choice(alphabet) for _ in range(generator.randrange(1, 7)))
        yield text
    for _ in range(count // 4):
        code_points = (generator.randrange(0x110000) for _ in range(8))
        yield " ".join(chr(c) for c in code_points if not 0xD800 <= c < 0xE000)

# The first article of the Universal Declaration of Human Rights, or its beginning.
TEN_SCRIPTS = [
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق، وقد وهبوا عقلاً وضميرًا.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
]
