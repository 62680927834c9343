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
    r"|did not|didn't|insufficient|missing|expired|timed? ?out|aborted|skipped"
    r"|nothing (?:was|to)|no changes?|must (?:be|have|first)|already|bounced|sold out"
    r"|(?:service|temporarily) unavailable|limit exceeded|reset by|no (?:\w+ )?left"
    r"|un(?:successful\w*|known)|incorrect|reverted|too (?:big|large|long|many|late"
    r"|small|short|few)|canceling statement|ran out|run out|over (?:the "
    r"|your )?(?:limit|quota|budget)|exceed\w*|in use|read-only|afraid|unfortunately"
    r"|regret\w*|apolog\w+|not authori[sz]ed|outside (?:of )?(?:the|its|our|your)"
    r"|only an? \w+ (?:can|may)|wrong|blocked|jammed|stuck|crashed|interrupted"
    r"|unreachable|violat\w+|no permission|out of (?:stock|memory|space|range|credit"
    r"|credits)|at capacity|not (?:enough|valid|recogni[sz]ed|in)|lacks?|ignored|won't"
    r"|isn't|aren't|wasn't|weren't|hasn't|haven't",
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
    r"не|нет|нельзя|невозможно|отказ\w*|отклон\w+|ошибка|к сожалению|извините|превыш\w+"
    r"|заблокирован\w*|исте[кч]\w*|недостаточно|недоступ\w+|отсутств\w+",
    "失败|失敗|无法|無法|不能|不足|不存在|拒绝|抱歉|遗憾|对不起|满了|已满|超过|超出"
    "|上限|售罄|过期|冻结|占用|未能|没有|ません|できない|できず|エラー|申し訳"
    "|恐れ入りますが|残念|満席|満室|期限切れ|在庫切れ|실패|없습니다|거부|죄송|초과|만석"
    "|매진|만료|못했|않았|تعذر|فشل|لم |لا يمكن|رفض|خطأ|عذر|نأسف|للأسف|تجاوز|ممتلئ|نفد"
    "|विफल|नहीं|अस्वीकृत|त्रुटि|खेद|क्षमा|असमर्थ",
)
"""Words by which a result says that an action was not done."""

DOUBTS = _words(
    r"would|dry[ _-]run|simulat\w+|preview\w*|queued|enqueued|pending|in progress"
    r"|processing|await\w*|under review|on hold|held|drafts?|to confirm|confirm to"
    r"|request (?:has been |was |is )?(?:received|noted|submitted|logged|forwarded)"
    r"|is full|is locked|conflicts?|mismatch|required|requires?|partial\w*|some of"
    r"|more specific|in (?:the |a )?queue|into the queue|behind \d+ other"
    r"|wait(?:ing)? ?list\w*|wait(?:s|ing)? for|outstanding|tentativ\w+|provisional\w*"
    r"|(?:to|and) (?:proceed|continue|go ahead)|to (?:complete|finish) (?:the|this"
    r"|your)|are you sure|(?:not )?yet|unchanged|up[- ]to[- ]date|password[- ]protected"
    r"|approval|verification|saved for later|stopping|paused|suspended|accepted for"
    r"|running(?! `)|draining|stalled|ongoing|(?:to|on) (?:the|our|a) (?:\S+ )?(?:list"
    r"|queue)|(?:verification|security) code|confirmation (?:link|e?-?mail)",
    r"bereits|schon|vorgemerkt|gepruft|in (?:prufung|bearbeitung)|ausstehend\w*"
    r"|warteschlange|entwurf|warteliste|bestatigen sie|erforderlich|benotigt|freigabe"
    r"|sobald|fast geschafft|anfrage|antrag",
    r"deja|en (?:attente|cours|brouillon)|a valider|brouillon|confirmez|requise?s?"
    r"|liste d'attente|approbation|soumise? a|option posee|sous reserve|demande d\S+"
    r"|votre demande",
    r"ya (?:esta|existe|fue)|en (?:cola|curso|revision|proceso|espera)|pendientes?"
    r"|borrador|confirme|requerid\w+|lista de espera|aprobacion|hay que|solicitud"
    r"|esta cerrad[oa]s?",
    r"ja (?:esta|existe|foi)|pendentes?|em (?:analise|fila|processamento|espera"
    r"|andamento)|rascunho|lista de espera|aprovacao|confirmar|precisamos|aguard\w+"
    r"|solicitacao|esta fechad[oa]s?",
    r"gia|in (?:attesa|coda|corso)|bozza|lista d'attesa|approvazione|conferm(?:a|i)"
    r"|richiesta|e chius[oa]",
    r"уже|ожида\w+|на (?:рассмотрении|проверк\w+|модерац\w+|согласовани\w+)|в очереди"
    r"|обрабатыва\w+|черновик\w*|подтвердите|частично|требу\w+|хватает|заявк[аи]"
    r"|запрос",
    "验证码|既に|すでに|認証コード|이미|인증|بالفعل|ओटीपी|पहले से|等待|审核|审批|复核"
    "|待确认|待支付|待处理|排队|处理中|草稿|审查|審査|保留|処理中|申请|请求|リクエスト"
    "|順番待ち|承認待ち|返事待ち|確認待ち|申請|下書き|검토|대기|접수|요청|신청|확인해"
    "|قيد|انتظار|مراجعة|समीक्षा|लंबित|प्रतीक्षा|विचाराधीन|अनुरोध|मंज़ूरी"
    "|[?\uff1f\u061f]",
)
"""Words by which a result leaves open whether an action was done."""

REQUESTS = _words(
    r"exists|click|tap|reply|type (?:the|yes|in)|log in|sign in|so far|for now|still"
    r"|instead|left in place|as (?:it was|before|is)|let you know|get back to you"
    r"|in the meantime|limit|quota|permit|someone else|remain(?:s|ed)?|stays"
    r"|would like to|(?:we|you)(?:'ll| will)? need|only \d+|\w*link|lien|enlace"
    r"|ссылк\w+",
    "链接|リンク|링크|رابط|लिंक",
)
"""Words of requests and limits: they leave an action open unless its own verb says in
another sentence that it is done."""

HINTS = _words(
    r"valid (?:for|until)|expires?|for the next \d+|will(?! no longer)|'ll|we'll|shall"
    r"|should|may|might|could|can(?! now)|if|unless|until|once|when|please|needs?|must"
    r"|want|soon|later|shortly|within \d+|business days|but|however|although|though"
    r"|except|due to|because|no(?! longer)|not|never|neither|nor|nobody|without|only"
    r"|interest|try(?:ing)?|going to|about to|by (?:the|another) (?!end|deadline)\w+"
    r"|since",
    r"bitte|muss|mussen|sollte|wird|werden|notig|notwendig|zuerst|falls|wenn|bevor|aber"
    r"|jedoch|ohne|nur|erst|innerhalb|binnen",
    r"veuillez|merci de|doit|devez|faut|necessaire|avant|des que|si vous|d'abord|sera"
    r"|seront|mais|sans|aucun\w*|jusqu'a|ne|pas|seulement",
    r"por favor|debe\w*|necesit\w+|antes|cuando|hasta que|seran?|pero|ningun\w*|sin"
    r"|llam(?:e|ar)|solo|si (?:desea|quiere)",
    r"deve\w*|precisa\w*|necessari\w+|quando|ate que|serao|mas|nenhum\w*|sem|apenas"
    r"|novamente",
    r"si prega|bisogna|occorre|prima|sara|saranno|verra|verranno|solo|finche",
    r"пожалуйста|нужно|необходимо|должн\w+|после|если|сначала|прежде|обратитесь|будет"
    r"|будут|но|без|только|скоро|через",
    "请|请您|需要|须|必须|先|才能|将会|将在|但|只|不|未|ください|必要|次第|場合|予定"
    "|が、|하세요|해 주세요|해주세요|필요|먼저|예정|하지만|يرجى|يجب|الرجاء|من فضلك|قبل"
    "|سيتم|سوف|لكن|لن|कृपया|चाहिए|आवश्यक|ज़रूरी|जरूरी|बाद में|जाएगा|जाएगी|लेकिन|तक",
)
"""Words of requests, conditions, the future, exceptions and negations: they are no
doubt beside a clear confirmation, and a clause with them confirms nothing."""

FUTURE = _words(
    r"will|'ll|to be|going to|wird|werden|sera|seront|seran|serao|sara|saranno|verra"
    r"|verranno|будет|будут",
    "将会|将在|将被|予定|예정|سيتم|سوف|जाएगा|जाएगी",
)
"""Words of the future: what the tool's verb says with them is not done yet."""

BENIGN = _words(
    r"(?:no|0|zero|without(?: an?y?)?)(?: further| more| new| other)? (?:errors?"
    r"|warnings?|problems?|issues?|conflicts?|failures?|fines?|fees?|charges?|losses"
    r"|duplicates?|action|costs?|trouble|hitch|incidents?|interruptions?|delays?"
    r"|downtime|reservations|rejects?|vulnerabilities|(?:\w+ ){0,2}(?:failed|skipped"
    r"|ignored|rejected|missing|remaining|unresolved|outstanding|dropped|lost|bounced"
    r"|invalid|conflict\w*|needed|required|necessary|detected|broken))|(?:nothing"
    r"|none) (?:\w+ )?(?:failed|skipped|rejected|missing|lost|broken)|0 \w+ left"
    r"|nothing (?:else|more|left|further) (?:to|is) \w+|sorry to see you go"
    r"|not? (?:needed|required|necessary) any ?more|free cancell?ation until|(?:do not"
    r"|don't) (?:need|have|worry)|no need|not to worry|won't be charged"
    r"|will not be charged|can't wait|error-free|(?:errors?|failed|failures?|skipped"
    r"|conflicts?|warnings?|rejected)[:= ]+(?:0|none)",
    r"(?:keine|ohne|0) (?:weiteren? )?(?:fehler\w*|probleme?|konflikte?|verluste?"
    r"|zwischenfalle?|gebuhr(?:en)?)|nichts weiter zu \w+|nicht (?:notig|notwendig"
    r"|erforderlich)",
    r"(?:sans|aucune?|0) (?:autre )?(?:erreurs?|problemes?|conflits?|ignorees?|echecs?"
    r"|rejetee?s?|incidents?|frais|pertes?|action|demarche)|rien d'autre a \w+",
    r"(?:sin|0|ningun) (?:errores|error|problemas?|conflictos?|rechazad\w+|omitid\w+"
    r"|incidencias|costes?|costos?|perdidas)|no (?:es necesario|hace falta|tiene que)",
    r"(?:sem|0|nenhum) (?:erros?|problemas?|conflitos?|recusad\w+|ignorad\w+|custos?"
    r"|perdas)|nao (?:e necessario|e preciso|precisa)",
    r"(?:senza|0|nessun) (?:errori|errore|problemi|problema|costi|perdite)"
    r"|non (?:occorre|serve)",
    r"(?:без|0) (?:ошибок|проблем|замечаний|потерь)|0 пропущен\w*|не (?:нужно"
    r"|требуется)",
    "无误|没有错误|无错误|没有问题|没有遗漏|无遗漏|无需|不需要|不用|問題なく|エラーなし"
    "|問題ありません|必要はありません|漏れなく|お待ちし|오류 없이|문제없이|필요 없"
    "|필요없|بدون أخطاء|لا حاجة|لا داعي|बिना त्रुटि|बिना किसी|ज़रूरत नहीं"
    "|आवश्यकता नहीं",
)
"""Negations of something bad or of what need not be done, and polite endings."""

PAST = _words(
    r"had|earlier|previous(?:ly)?|yesterday|last (?:time|night|week|attempt)|overnight"
    r"|initially|originally|at first|\d(?:st|nd|rd|th) (?:attempt|try)|(?:attempt|try)"
    r" \d|(?:first|second|third|two|three) (?:\w+ )?(?:attempts?|tries|try)|superseded"
    r"|retr(?:y|ied|ying)|tried again|after \w+ (?:attempts|retries|tries|failures)"
    r"|finally|eventually|in the end|this time|prior|ago|despite|until now",
    r"vorher\w*|zuvor|fruher\w*|gestern|zunachst|ursprunglich|versuch\w*|schliesslich"
    r"|endlich|diesmal",
    r"precedent\w*|hier|auparavant|tentatives?|initialement|enfin|finalement"
    r"|cette fois",
    r"anterior\w*|ayer|al principio|intentos?|ontem|tentativas?|precedent\w|ieri"
    r"|finalmente|al final|esta vez|por fim|desta vez|dessa vez|alla fine|questa volta",
    r"ранее|раньше|вчера|прежн\w+|попытк\w+|сначала|наконец|в итоге|на этот раз",
    "之前|此前|先前|上次|昨天|重试|前回|以前|先ほど|昨日|再試行|이전|지난|어제|재시도"
    "|最终|终于|这次|今回|再度|ついに|결국|마침내|이번|سابق|أمس|محاول|أخيرا|هذه المرة"
    "|पहले|पिछल|कल |आखिरकार|इस बार|अंततः",
)
"""Words of what happened before, and of the end: of that the first say nothing."""

COMPLETE = _words(
    r"complete(?:d|ly)?|all good|done|ok|okay|succe(?:ss\w*|eded)|finished|(?:gone|went"
    r"|go|run|ran) through|all set|took effect|is live|live on|in place now|all clear",
    r"erfolgreich\w*|erledigt",
    r"succes|avec succes|termine[es]*",
    r"exito\w*|con exito|listo",
    r"sucesso|com sucesso|concluid[oa]s?|pronto",
    r"successo|con successo|completat[oaie]|fatto",
    r"успешно|готово|выполнен\w*|завершен\w*|завершён\w*",
    "成功|完毕|完成|完了|済み|성공|완료|بنجاح|सफल|संपन्न|[\u2713\u2714\u2705\U0001f44d]",
)
"""Words that say by themselves that all is done."""

PARTICIPLES = _words(
    r"taken care of|good to go|up and running|back online|in (?:effect|force)|went out"
    r"|effective (?:immediately|today|from|now)|is yours|welcome aboard|can now"
    r"|ha(?:s|ve) access",
    r"\w{0,10}ge\w{2,}t|\w{3,}iert|bestätigt|ver(?:sendet|sandt|schoben|schickt)"
    r"|erstellt|entfernt|überwiesen|bezahlt|beendet|erfolgt|wurden?|ausgeführt"
    r"|\w{0,6}geschrieben|\w{0,6}gehoben|abgeschlossen",
    r"\w{2,}(?<!it)ée?s?|a été|ont été|(?:é|trans|re)?mise?s?|faite?s?|inscrite?s?",
    r"\w{3,}[ai]d[oa]s?|hech[oa]s?|puest[oa]s?|escrit[oa]s?|abiert[oa]s?|feit[oa]s?",
    r"\w{3,}[aiu]t[oa]|(?:è|sono) stat[oaie]|(?:ha|abbiamo|è|sono) \w{2,}[aiu]t[oaie]",
    r"\w{3,}(?:[её]н|ан|ят|ыт)[аоы]?",
    "已(?!经?满|存在|进入|提交|收到|受理|过|发货|被使用|被占|被注册|被预订"
    "|被锁)[\u4e00-\u9fff]{0,6}|[\u3040-\u30ff\u4e00-\u9fff]{0,8}ました"
    "|[\uac00-\ud7a3]{0,8}[했었됐]습니다|تمت? \\w+|تم$|(?:\\S+ ){0,2}(?:गया|गई|गए"
    "|चुक[ाी]|दिया है|दी है)",
)
"""Forms of verbs that say that something is complete, with accents."""

NOW = re.compile(r"(?:\b(?:is|are)|'re|'s) now\b|\bnow has\b")
"""English words before a new state."""

PASSIVE = re.compile(r"\b(?:has|have) been \w+(?:ed|en|nt|ade|aid|old)\b")
"""An English verb that says what was done."""

OWN_PARTICIPLES = re.compile(r"\b\w{3,}[aiu]t[oaie]\b")
"""The same of Italian, where other words have the same endings."""

_NOUNS = re.compile(
    r"contato|contrat[oa]|gratuit[oa]|minuto|privat[oa]|risultato|année|cada|clé|cuenta"
    r"|cuidado|dado|durée|entrada|estado|geht|gesamt|gibt|journée|marché|medida|mercado"
    r"|nada|partida|pedido|pedidos|resultado|salida|saída|société|tarjeta|toda|été|один"
    r"|план|экран"
)
"""Words that only look like participles."""


def completed(clause: str) -> list[str]:
    """The words of a clause, in small letters, that have the form of what is done."""
    found = (each.group() for each in PARTICIPLES.finditer(clause))
    return [word for word in found if not _NOUNS.fullmatch(word)]
