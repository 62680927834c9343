"""Words by which results say that something was done, was not done, or waits.

They are the small change of ten languages: negations, requests, conditions, the future,
apologies and limits on one side, forms of verbs that say that something is complete on
the other. Text is compared in small letters and without the accents of Latin letters.
"""

import re
from typing import Literal

Status = Literal["done", "unconfirmed", "called", "failed", "interrupted"]
"""What is known of a call: an action that succeeded; an action whose result leaves that
open; a call of which only the result is known; one that failed; one whose result never
came."""


def _words(*patterns: str) -> re.Pattern[str]:
    """Whole words in languages with spaces; the last pattern needs no spaces."""
    *spaced, joined = patterns
    whole = "|".join(spaced)
    return re.compile(rf"\b(?:{whole})\b|{joined}" if joined else rf"\b(?:{whole})\b")


DENIALS = _words(
    r"could ?n[o']t|can ?not|can't|unable|fail(?:s|ed|ure)?|error(?:ed)?|denied"
    r"|declined|do(?:es)? not|don't|not \w+ed|roll(?:ed|ing)? ?back|fully booked"
    r"|rejected|refused|forbidden|unauthori[sz]ed|invalid|not (?:allowed|permitted"
    r"|found|possible|eligible|supported|available|enough|done|been|sent|appl(?:y|ied))"
    r"|no such|no longer (?:available|possible|valid|exists?|in)|can no longer|doesn't"
    r"|did not|didn't|insufficient|missing|expired|timed? ?out"
    r"|aborted|skipped|nothing (?:was|to)|no changes?|must (?:be|have|first)|already"
    r"|bounced|sold out|(?:service|temporarily) unavailable|limit exceeded|reset by"
    r"|no (?:\w+ )?left|un(?:successful\w*|known)|incorrect|reverted|too (?:big|large"
    r"|long|many|late|small|short|few)|canceling statement|ran out|run out"
    r"|over (?:the |your )?(?:limit|quota|budget)|exceed\w*|in use|read-only|afraid"
    r"|unfortunately|regret\w*|apolog\w+|not authori[sz]ed|outside (?:of )?(?:the"
    r"|its|our|your)|only an? \w+ (?:can|may)|wrong|blocked|jammed|stuck|crashed"
    r"|interrupted|unreachable|violat\w+|no permission|out of (?:stock|memory|space"
    r"|range|credit|credits)|at capacity|not (?:enough|valid|recogni[sz]ed|in)|lacks?"
    r"|ignored|won't|isn't|aren't|wasn't|weren't|hasn't|haven't",
    # German, French, Spanish, Portuguese, Italian, Russian
    r"nicht|kein\w*|fehl\w+|abgelehnt|verweigert|leider|gesperrt|ausgebucht"
    r"|uberschritten|abgelaufen|ungultig|belegt|vergriffen",
    r"n'a pas|impossible|introuvable|echou\w+|echec|refus\w+|desolee?s?|malheureusement"
    r"|depass\w+|expiree?s?|invalide|bloquee?s?|epuisee?s?|indisponible|interdite?s?",
    r"no se (?:pudo|puede|ha|encontro)|no (?:fue|es|esta|hay|tiene|encontrad\w+|existe)"
    r"|denegad\w+|error al|rechazad\w+|lo sentimos|lamentablemente|agotad\w+|exced\w+"
    r"|superad\w+|bloquead\w+|caducad\w+|invalid[oa]s?|no disponible",
    r"nao|negad\w+|falhou|recusad\w+|infelizmente|lamentamos|esgotad\w+|expirad\w+"
    r"|indisponive\w+",
    r"non(?!-)|purtroppo|spiacent\w|esaurit\w|bloccat\w|scadut\w|rifiutat\w|fallit\w"
    r"|negat[oa]",
    r"не|нет|нельзя|невозможно|отказ\w*|отклон\w+|ошибка|к сожалению|извините"
    r"|превыш\w+|заблокирован\w*|исте[кч]\w*|недостаточно|недоступ\w+|отсутств\w+",
    "失败|失敗|无法|無法|不能|不足|不存在|拒绝|抱歉|遗憾|对不起|满了|已满|超过|超出"
    "|上限"
    "|售罄|过期|冻结|占用|未能|没有|ません|できない|できず|エラー|申し訳|恐れ入りますが"
    "|残念|満席|満室|期限切れ|在庫切れ|실패|없습니다|거부|죄송|초과|만석|매진|만료|못했"
    "|않았|تعذر|فشل|لم |لا يمكن|رفض|خطأ|عذر|نأسف|للأسف|تجاوز|ممتلئ|نفد"
    "|विफल|नहीं|अस्वीकृत|त्रुटि|खेद|क्षमा|असमर्थ",
)
"""Words by which a result says that an action was not done."""

DOUBTS = _words(
    r"would|dry[ _-]run|simulat\w+|preview\w*|queued|enqueued|pending|in progress"
    r"|processing|await\w*|under review|on hold|held|drafts?|to confirm|confirm to"
    r"|request (?:has been |was |is )?(?:received|noted|submitted|logged|forwarded)"
    r"|is full|is locked|conflicts?|exists|mismatch|required|requires?|partial\w*"
    r"|some of|more specific|in (?:the |a )?queue|into the queue|behind \d+ other"
    r"|wait(?:ing)? ?list\w*|wait(?:s|ing)? for|outstanding|tentativ\w+|provisional\w*"
    r"|click|tap|reply|type (?:the|yes|in)|log in|sign in|(?:to|and) (?:proceed"
    r"|continue|go ahead)|to (?:complete|finish) (?:the|this|your)|are you sure|so far"
    r"|for now|(?:not )?yet|still|instead|unchanged|up[- ]to[- ]date|left in place"
    r"|as (?:it was|before|is)|let you know|get back to you|in the meantime|limit"
    r"|quota|permit|password[- ]protected|someone else|approval|verification"
    r"|remain(?:s|ed)?|stays|would like to|(?:we|you)(?:'ll| will)? need"
    r"|saved for later|stopping|paused|suspended|on the way|halfway|underway"
    r"|accepted for|only \d+|running(?! `)|draining|stalled|ongoing",
    r"vorgemerkt|gepruft|in (?:prufung|bearbeitung)|ausstehend\w*|warteschlange"
    r"|entwurf|warteliste|bestatigen sie|erforderlich|benotigt|freigabe|sobald"
    r"|fast geschafft|anfrage|antrag",
    r"en (?:attente|cours|brouillon)|a valider|brouillon|confirmez|requise?s?"
    r"|liste d'attente|approbation|soumise? a|option posee|sous reserve|demande d\S+"
    r"|votre demande",
    r"en (?:cola|curso|revision|proceso|espera)|pendientes?|borrador|confirme"
    r"|requerid\w+|lista de espera|aprobacion|hay que|solicitud|esta cerrad[oa]s?",
    r"pendentes?|em (?:analise|fila|processamento|espera|andamento)|rascunho"
    r"|lista de espera|aprovacao|confirmar|precisamos|aguard\w+|solicitacao"
    r"|esta fechad[oa]s?",
    r"in (?:attesa|coda|corso)|bozza|lista d'attesa|approvazione|conferm(?:a|i)"
    r"|richiesta|e chius[oa]",
    r"ожида\w+|на (?:рассмотрении|проверк\w+|модерац\w+|согласовани\w+)|в очереди"
    r"|обрабатыва\w+|черновик\w*|подтвердите|частично|требу\w+|хватает|заявк[аи]"
    r"|запрос",
    "等待|审核|审批|复核|待确认|待支付|待处理|排队|处理中|草稿|审查|審査|保留|処理中"
    "|申请|请求|リクエスト|順番待ち|承認待ち|返事待ち|確認待ち|申請|下書き|검토|대기"
    "|접수|요청|신청|확인해"
    "|قيد|انتظار|مراجعة|समीक्षा|लंबित|प्रतीक्षा|विचाराधीन|अनुरोध|मंज़ूरी"
    "|[?\uff1f\u061f]",
)
"""Words by which a result leaves open whether an action was done."""

HINTS = _words(
    r"will(?! no longer)|'ll|we'll|shall|should|may|might|could|can(?! now)|if|unless"
    r"|until|once|when|please|needs?|must|want|soon|later|shortly|within \d+"
    r"|business days|but|however|although|though|except|due to|because|no(?! longer)"
    r"|not|never"
    r"|neither|nor|nobody|without|only|interest|try(?:ing)?|going to|about to",
    r"bitte|muss|mussen|sollte|wird|werden|notig|notwendig|zuerst|falls|wenn|bevor"
    r"|aber|jedoch|ohne|nur|erst|innerhalb|binnen",
    r"veuillez|merci de|doit|devez|faut|necessaire|avant|des que|si vous|d'abord"
    r"|sera|seront|mais|sans|aucun\w*|jusqu'a|ne|pas|seulement",
    r"por favor|debe\w*|necesit\w+|antes|cuando|hasta que|seran?|pero|ningun\w*|sin"
    r"|llam(?:e|ar)|solo|si (?:desea|quiere)",
    r"deve\w*|precisa\w*|necessari\w+|quando|ate que|serao|mas|nenhum\w*|sem|apenas"
    r"|novamente",
    r"si prega|bisogna|occorre|prima|sara|saranno|verra|verranno|solo|finche",
    r"пожалуйста|нужно|необходимо|должн\w+|после|если|сначала|прежде|обратитесь"
    r"|будет|будут|но|без|только|скоро|через",
    "请|请您|需要|须|必须|先|才能|将会|将在|但|只|不|未|ください|必要|次第|場合|予定"
    "|が、"
    "|하세요|해 주세요|해주세요|필요|먼저|예정|하지만|يرجى|يجب|الرجاء|من فضلك|قبل"
    "|سيتم|سوف|لكن|لن|कृपया|चाहिए|आवश्यक|ज़रूरी|जरूरी|बाद में|जाएगा|जाएगी|लेकिन|तक",
)
"""Words of requests, conditions, the future, exceptions and negations: they are no
doubt beside a clear confirmation, and a clause with them confirms nothing."""

BENIGN = _words(
    r"(?:no|0|zero|without(?: any)?)(?: further| more| new| other)? (?:errors?"
    r"|warnings?"
    r"|problems?|issues?|conflicts?|failures?|fines?|fees?|charges?|losses|duplicates?"
    r"|action (?:is |was )?(?:needed|required)|action|downtime|reservations|rejects?"
    r"|(?:\w+ )?(?:failed|skipped|ignored|rejected|missing|remain(?:ing)?"
    r"|unresolved|outstanding|dropped|lost|bounced|invalid|conflict\w*))"
    r"|0 \w+ left|nothing (?:else|more|left) to \w+|sorry to see you go"
    r"|not? (?:needed|required|necessary) any ?more|free cancell?ation until"
    r"|(?:errors?|failed|failures?|skipped|conflicts?|warnings?|rejected)[:= ]+(?:0"
    r"|none)",
    r"(?:keine|ohne|0) (?:fehler\w*|probleme?|konflikte?)",
    r"(?:sans|aucune?|0) (?:erreurs?|problemes?|conflits?|ignorees?|echecs?"
    r"|rejetee?s?)",
    r"(?:sin|0|ningun) (?:errores|error|problemas?|conflictos?|rechazad\w+|omitid\w+)",
    r"(?:sem|0|nenhum) (?:erros?|problemas?|conflitos?|recusad\w+|ignorad\w+)",
    r"(?:senza|0|nessun) (?:errori|errore|problemi|problema)",
    r"(?:без|0) (?:ошибок|проблем|замечаний)|0 пропущен\w*",
    "无误|没有错误|无错误|没有问题|問題なく|エラーなし|問題ありません|お待ちし"
    "|오류 없이"
    "|문제없이|بدون أخطاء|बिना त्रुटि|बिना किसी",
)
"""Negations of something bad, and polite endings."""

PAST = _words(
    r"had|earlier|previous(?:ly)?|yesterday|last (?:time|night|week|attempt)|overnight"
    r"|initially|originally|at first|\d(?:st|nd|rd|th) (?:attempt|try)|(?:attempt|try)"
    r" \d|(?:first|second|third|two|three) (?:\w+ )?(?:attempts?|tries|try)|superseded"
    r"|retr(?:y|ied|ying)|tried again|after \w+ (?:attempts|retries)",
    r"vorher\w*|zuvor|fruher\w*|gestern|zunachst|ursprunglich|versuch\w*",
    r"precedent\w*|hier|auparavant|tentatives?|initialement",
    r"anterior\w*|ayer|al principio|intentos?|ontem|tentativas?|precedent\w|ieri",
    r"ранее|раньше|вчера|прежн\w+|попытк\w+|сначала",
    "之前|此前|先前|上次|昨天|重试|前回|以前|先ほど|昨日|再試行|이전|지난|어제|재시도"
    "|سابق|أمس|محاول|पहले|पिछल|कल ",
)
"""Words of what happened before: what failed then says nothing of the end."""

COMPLETE = _words(
    r"complete(?:d|ly)?|done|ok|okay|succe(?:ss\w*|eded)|finished|(?:gone|went|go"
    r"|run|ran) through|all set|took effect|is live|live on|in place now|all clear",
    r"erfolgreich\w*|erledigt",
    r"succes|avec succes|termine[es]*",
    r"exito\w*|con exito|listo",
    r"sucesso|com sucesso|concluid[oa]s?|pronto",
    r"successo|con successo|completat[oaie]|fatto",
    r"успешно|готово|выполнен\w*|завершен\w*|завершён\w*",
    "成功|完成|完了|済み|성공|완료|بنجاح|सफल|संपन्न|[\u2713\u2714\u2705\U0001f44d]",
)
"""Words that say by themselves that all is done."""

PARTICIPLES = _words(
    r"(?:is|are|'re|'s) now|can now|now has|(?:has|have) been \w+(?:ed|en|nt|ade|aid"
    r"|old)",
    r"\w{0,10}ge\w{2,}t|\w{3,}iert|bestätigt|ver(?:sendet|sandt|schoben|schickt)"
    r"|erstellt|entfernt|überwiesen|bezahlt|beendet|erfolgt|wurden?|ausgeführt"
    r"|\w{0,6}geschrieben|\w{0,6}gehoben|abgeschlossen",
    r"\w{2,}(?<!it)ée?s?|a été|ont été|(?:é|trans)?mise?s?|faite?s?|inscrite?s?",
    r"\w{3,}[ai]d[oa]s?|hech[oa]s?|puest[oa]s?|escrit[oa]s?|abiert[oa]s?|feit[oa]s?",
    r"(?:è|sono) stat[oaie]|(?:ha|abbiamo|è|sono) \w{2,}[aiu]t[oaie]",
    r"\w{3,}(?:[её]н|ан|ят|ыт)[аоы]?",
    "已(?!经?满|存在|进入|提交|收到|受理|过|发货)[\u4e00-\u9fff]{0,6}"
    "|[\u3040-\u30ff\u4e00-\u9fff]{0,8}ました|[\uac00-\ud7a3]{0,8}[했었됐]습니다"
    "|تمت? \\w+|تم$|(?:\\S+ ){0,2}(?:गया|गई|गए|चुक[ाी]|दिया है|दी है)",
)
"""Forms of verbs that say that something is complete, with accents."""

OWN_PARTICIPLES = re.compile(r"\b\w{3,}[aiu]t[oaie]\b")
"""The same of Italian, where other words have the same endings."""

_NOUNS = re.compile(
    r"année|cada|clé|cuenta|cuidado|dado|durée|entrada|estado|geht|gesamt|gibt|journée|marché"
    r"|medida|mercado|nada|partida|pedido|pedidos|resultado|salida|saída|société|tarjeta|toda|été|один|план|экран"
)
"""Words that only look like participles."""


def completed(clause: str) -> list[str]:
    """The words of a clause, in small letters, that have the form of what is done."""
    found = (each.group() for each in PARTICIPLES.finditer(clause))
    return [word for word in found if not _NOUNS.fullmatch(word)]
