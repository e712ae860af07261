"""The word lists: ordinary words of several scripts, the most frequent first, made for this generator.

Each script says what stands between words and what ends a sentence. The list called `log` is not a
language: it is what tools print, full of characters that JSON must escape.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["LATIN", "LOG", "WORLD", "Script", "listed"]


class Script(NamedTuple):
    """One word list with its punctuation."""

    name: str
    words: tuple[str, ...]
    glue: str = " "
    stop: str = "."
    comma: str = ","
    extras: tuple[str, ...] = ()
    endings: tuple[str, ...] = ("",)


def listed(text: str) -> tuple[str, ...]:
    """The words of a text, as a tuple."""
    return tuple(text.split())


LATIN: Final = Script(
    "latin",
    listed(
        """
        the of and to a in is that it for with as on be at by this are from or we an which can not
        each if then when two one has there will its more all these must so first other after only
        three between before number where both while same most under over value second time because
        answer given since total half every still small large left right start point side next part
        call room river garden table stone train market window letter bridge island paper lamp
        winter summer morning evening harbour engine pocket ladder basket orchard village teacher
        farmer baker sailor doctor painter pilot neighbour child friend costs sells buys takes
        carries holds turns opens closes counts adds divides measures compares follows reaches
        leaves returns arrives begins ends builds writes reads learns grows falls rises moves keeps
        finds shows means needs makes gives red blue green white dark bright quiet heavy light round
        narrow wide deep early late cold warm simple careful exact common rare equal likely possible
        certain whole single double apples pears coins boxes hours minutes days weeks miles metres
        litres pounds tickets pages chapters steps rows columns edges corners circles squares angles
        therefore however although instead perhaps almost nearly exactly together twice slowly
        quickly above below inside outside across along around toward without within theory example
        reason method result rule proof question claim source detail summary context passage
        sentence phrase word language history science music weather climate energy forest mountain
        desert ocean planet signal network memory pattern balance weight temperature pressure
        distance volume surface material mixture solution fraction percent average median
        """
    ),
    extras=(
        *("café", "naïve", "—", "“so”", "it’s", "3.5 %", "€12", "😀", "🚀", "\n\n", "\n- ", "\t"),
        *(
            '"yes"',
            "x² + 1",
            "\\frac{1}{2}",
            "C:\\temp",
            "https://example.org/a/b",
            "`code`",
            "**bold**",
            "<b>",
            "§ 4",
        ),
    ),
    endings=(
        "",
        "",
        "",
        "",
        "s",
        "ed",
        "ing",
        "er",
        "ly",
        "ness",
        "like",
        "less",
        "ward",
        "-to-be",
        "'s",
        "ful",
    ),
)

LOG: Final = Script(
    "log",
    listed(
        """
        ok id null true name 0 1 status=200 {"id": "items": [ ], }, "price": "status": "open" error
        code=7 GET POST /api/v1/items /usr/share/data \\n "seat": "12A" retry=2 user_4711 order_0815
        done. elapsed=0.42s warning: -- file.txt line 17 cached rows=64 bytes=2048 host-3 queue=main
        "available": false "total": 129.50 "currency": "EUR" checksum=ab12 >>> $ ls cd mkdir grep
        exit 0x1f FAIL PASS [info] [warn] step=3 batch session token=*** "date": "time": "08:15"
        "from": "to": reservation cabin basic flexible refund policy section 4.2 limit=50
        """
    ),
    stop=";",
    endings=("", "", "", "_1", "_27", "=0x3c", ".8", ":443", "/etc", "--all", "#91", "@5"),
    extras=(
        "\n",
        "\n\t",
        "\r\n",
        "\x1b[0m",
        "C:\\logs\\run",
        '\\"quoted\\"',
        "→",
        "✓",
        "…",
        "\u2028",
        "\u0085",
    ),
)

WORLD: Final = (
    Script(
        "accents",
        listed(
            """
            le la de et à les des un une où est être déjà très après même là garçon forêt château
            élève été hôtel naïf cœur façade und die der das für über schön größer straße müde fünf
            höher können wäre año niño señal mañana corazón también según está coração não ação pão
            łódź żółty późno świat kůň žena člověk být håb sjö ålder bärn ørken fjäll ığne şehir çok
            güzel
            """
        ),
        extras=("«", "»", "¿qué?", "¡sí!", "n°", "½"),
    ),
    Script(
        "cyrillic",
        listed(
            """
            и в не на я что тот быть с он как это по но они мы весь который из у свой так год дом
            река город письмо окно вопрос ответ число сумма первый второй третий новый старый утро
            вечер зима лето книга слово время больше меньше между потому поэтому например сначала
            потом
            """
        ),
        extras=("—", "№ 5", "«да»"),
    ),
    Script(
        "greek",
        listed(
            """
            και το η ο να του της με για που δεν από στο είναι θα τα σε ένα αυτό όταν πρώτο δεύτερο
            αριθμός νερό θάλασσα βουνό πόλη σπίτι ερώτηση απάντηση λόγος χρόνος ημέρα νύχτα μικρό
            μεγάλο πάντα ποτέ
            """
        ),
        extras=("·", "«ναι»"),
    ),
    Script(
        "arabic",
        listed(
            """
            في من على أن إلى هذا التي كان مع كل بعد قبل ماء بيت مدينة كتاب سؤال جواب عدد يوم ليل
            صباح طريق جبل بحر كبير صغير أول ثان لأن لذلك مثلا بين
            """
        ),
        comma="،",
        extras=("؟", "٤٢"),
    ),
    Script(
        "devanagari",
        listed(
            """
            है के में की और से का को यह पर एक नहीं तो ही था जो कर हम पानी घर नगर किताब प्रश्न उत्तर
            संख्या दिन रात सुबह नदी पहाड़ बड़ा छोटा पहला दूसरा क्योंकि इसलिए
            """
        ),
        stop="।",
    ),
    Script(
        "han",
        listed(
            """
            的 是 在 了 有 和 人 这 我 不 们 个 上 来 到 大 地 为 子 中 说 年 水 山 城市 问题 答案
            数字 第一 第二 时间 早上 晚上 因为 所以 例如 房子 学生 老师 计算 结果 方法 一共 多少
            之间 然后
            """
        ),
        glue="",
        stop="。",
        comma=",",
        extras=("「好」", "𠮷", "12"),
    ),
    Script(
        "kana",
        listed(
            """
            の に は を が と で た も する いる なる こと ある この それ から まで 水 山 町 家 朝
            夜 問い 答え 数 時間 さいしょ つぎ だから たとえば データ テスト モデル カメラ
            """
        ),
        glue="",
        stop="。",
        comma="、",
    ),
    Script(
        "hangul",
        listed(
            """
            이 그 저 것 수 등 들 및 에서 으로 하다 있다 되다 물 산 집 도시 질문 대답 숫자 시간 아침
            저녁 첫째 둘째 그래서 예를 들어 사이 전체 절반 계산 결과 방법
            """
        ),
        extras=("👩‍🔬", "🇰🇷"),
    ),
)
