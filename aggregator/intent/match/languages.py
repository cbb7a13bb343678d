"""How people ask, refuse and tell in each language: one row a language, and the choice of the row for a message.

Law: rows hold the small words of a language and its forms of a request, never names or words of a catalog.
"""

import re
from typing import Final

from aggregator.intent.match.language_row import LanguageRow
from aggregator.intent.match.text import MessageText

_KANA: Final = re.compile(r"[\u3040-\u30ff]")
_HANGUL: Final = re.compile(r"[\uac00-\ud7af]")
# Words of a message that are read for its language.
_WORDS_READ: Final = 60

_EN: Final = LanguageRow(
    "en",
    asks="can_you could_you would_you will_you can_we could_we please let's let_us go_ahead_and i'd_like i_would_like "
    "any_chance_you_could any_chance_you_can do_me_a_favour_and do_me_a_favor_and i_want i'd_love i_would_love "
    "could_do_with i_need we_need_a we_need_an you_should you_need you'll_need give_me get_me show_me do_a",
    objects="the a an my our your this that these those all it",
    uses="use hit fire_up open",
    # Pipe the result into add_documents.
    form_opens=r"^\W*(?:(?:and|then|now|next|finally|please) )*do $"
    r"|^\W*(?:(?:and|then|now|next|finally|please) )*(?:pipe|feed|pass|hand|plug|push|put|pour|run) "
    r"[^,.]{1,40} (?:into|through|to) $",
    form_runs=r"(?:(?:run|call|use|try|execute|invoke) (?:it|that)|do it|give it a (?:try|go|spin|shot))(?!\w)",
    places="in on with using via through from",
    sources="according_to as_per",
    of="of for in about from at by into on with",
    refuses="no not never don't without stop avoid cannot can't won't shouldn't instead_of rather_than",
    tells="how why what when who which where whether if is are was were do_you does did has had explain describe tell "
    "discuss document compare difference mean said says told ran got went saw wrote built made sent thought wish knows",
    joins="please time_to ok okay hi hey hello now then and just so next first finally also",
    fillers="the a an my this that me it tool do one more",
    small="i we you they he she some any all every each both to or than like as our your their his her its these those "
    "there here tools function server have be been am us no yes thanks hello can could would should may must will "
    "shall might up error bug problem issue docs only same new old maybe perhaps called named",
    # Past forms, but need, feed, embed and seed.
    form_tells=r"(?<!\w)(?!need|feed|embed|seed)[a-z]{2,18}ed(?!\w)",
    form_says=(
        (r"^\W*(?:(?:please|now|then|and) )?let ", r" (?!be|go|know|down|alone)[a-z]+(?!\w)"),
        (
            r"(?<!\w)tell me (?:what|who|how many|which)(?:['’]s)? (?!is an? |are |does )[^,.]*(?:in|on|at) (?:the )?",
            "(?:$| )",
        ),
        (
            r"^\W*(?:(?:please|now|then|and|(?:can|could|would|will) you(?: please)?|do me a favou?r and) )?"
            r"(?:have|make) ",
            r" (?!(?:be|been|had|ever|to|not|no|any|work|look|feel|seem|sound)(?!\w))[a-z]{2,18}"
            r" (?:this|that|these|it|the|my|our|me|a|an|all"
            r"|every[a-z]*|up|out|into|through|over|at|for|who|what|when|where|how|whether)(?!\w)",
        ),
        # Can you get x to read this.
        (
            r"^\W*(?:(?:please|now|then|and|(?:can|could|would|will) (?:you|we)(?: please)?|let['’]s|i want you to) )?"
            r"(?:get|ask|tell) ",
            r" to (?!be|go|work)[a-z]{2,18}(?!\w)",
        ),
        # What is there now: which pods run in x right now, any new bugs in x since yesterday.
        (
            r"^\W*(?:what(?!(?:['’]s| is| are)? (?:new|trending|wrong|great|going|happening|jobs?)(?!\w))"
            r"|which|how many|any|are there|is there)(?! (?:people|companies|developers|teams)(?!\w))(?:['’]s)?(?!\w)"
            r"[^,.]{0,60} (?:in|on) (?:the |my |our )?",
            r"(?: [\w-]{1,20}){0,2} (?:right now|now|at the moment|currently|since [^,.?]{1,20}|so far today|today"
            r"|this (?:week|morning|sprint))\W*$",
        ),
        (r"(?<!\w)give ", r" an? (?:quick |little )?(?:try|go|spin|shot|whirl)(?!\w)"),
        (
            r"(?<!\w)(?:what(?: else)?|whatever|anything)(?: do(?:es)?)?(?: [\w-]+ and)? ",
            r"(?: and [\w-]+)? (?:says?|thinks?|finds?|knows?|returns?|has|have|got|suggests?"
            r"|(?:comes?|turns?) up(?: with)?)"
            r"(?: to say)?(?: anything)? (?:about|on|for|of|regarding|when|if)(?!\w)",
        ),
    ),
)
_DE: Final = LanguageRow(
    "de",
    asks="kannst_du könntest_du würdest_du magst_du willst_du können_sie könnten_sie würden_sie können_wir könnten_wir "
    "wäre_es_möglich bitte lass_uns lasst_uns kannste könnt_ihr könntet_ihr dass_du ich_möchte ich_brauche brauchst_du "
    "wir_brauchen ich_hätte_gern "
    "ich_hätte_gerne am_besten gib_mir",
    objects="die den das dem ein eine einen mir uns mein meine meinen unser unsere unseren alle diese diesen dieses "
    "ihn es",
    form_runs=r"(?:lass (?:es|das|ihn)|führ(?:e)? (?:es|das) aus|ruf(?:e)? (?:es|das) auf|starte? (?:es|das)"
    r"|(?:bitte )?(?:ausführen|aufrufen))(?!\w)",
    orders="suche such finde erstelle erstell lege leg hole hol zeige zeig lies schreibe schreib prüfe prüf öffne "
    "schicke schick sende lade lad lösche lösch schaue schau sieh guck guckt gucke starte start stoße stoß führe führ "
    "mache mach speichere speicher sichere merke merk füge füg setze setz trage trag ändere änder berechne rechne "
    "zähle "
    "zähl vergleiche kopiere kopier verschiebe verschieb klicke klick tippe tipp fülle füll gehe geh melde meld logge "
    "wirf werfe hänge häng stelle stell rufe ruf übersetze übersetz veröffentliche kommentiere schließe schließ "
    "plane buche ermittle ermittel recherchiere recherchier ziehe zieh besorge besorg bring bringe gib sag "
    "liste zeichne erzeuge erzeug generiere generier wandle konvertiere exportiere exportier importiere importier "
    "teste teste_mal skaliere rolle roll räume räum frage frag schlage schlag durchsuche durchsuch kontrolliere "
    "aktualisiere leere entferne entfern verknüpfe teile teil installiere baue bau",
    wonders="ob obs warum wieso weshalb was wie wer wo wann welche welcher welches welchen wieviel wie_viele",
    uses="öffne nutze nutz benutze benutz verwende verwend nimm frage frag rufe ruf führe führ",
    means="mit mittels per via durch",
    places="in auf bei aus über",
    sources="laut gemäß nach_angaben_von",
    of="von vom für zu zum zur in im aus bei über",
    refuses="nicht nichts finger_weg kein keine keinen keinesfalls nie niemals ohne statt anstatt",
    tells="was wie warum wieso weshalb wann wer wo wofür wozu woher welche welcher welches welchen ob ist sind war "
    "waren wurde wurden wird werden habe hat haben hatte hatten gestern vorhin neulich sagte meinte erkläre "
    "erklär vergleiche kann darf muss soll_ich sollen_wir läuft geht funktioniert problem probleme fehler ärger "
    "erfahrung erfahrungen",
    joins="sei_so_nett_und sei_so_lieb_und sei_so_gut_und tu_mir_den_gefallen_und "
    "und dann danach bitte jetzt nun also ok okay hallo hi zuerst anschließend",
    fillers="der die das dem den des ein eine einen einem einer mal doch bitte nun jetzt auch gleich noch dir mir uns "
    "tool werkzeug funktion befehl dienst server",
    asked="kann_man_sehen weißt_du sieht_man "
    "welche welcher welches welchen wie_viele wieviele wieviel gibt_es gibt's gibts hat haben hab habe haben_wir "
    "ist sind "
    "läuft laufen wer was steht stehen liegt liegen irgendwelche noch_irgendwelche hängt hängen",
    now="mein meine meinen meinem meiner unser unsere unserem unserer ich wir mir uns gerade aktuell derzeit momentan "
    "jetzt heute gestern "
    "nacht neue neuen neues neuer neueste neuesten letzte letzten offen offene offenen aktive aktiv läuft laufen "
    "laufende laufenden "
    "noch seit fehlgeschlagen hängt hängen down zugewiesen fällig überfällig schon",
    itself="kostet kosten preis preise teuer teurer billiger kostenlos gratis besser schlechter lohnt wert lizenz "
    "leute firmen "
    "menschen alternativen alternative vorteile nachteile unterstützt unterschied funktioniert funktionieren bedeutet "
    "heißt sicher legal "
    "gehört ceo jobs stellen arbeitet gewechselt umgestiegen nervt finde hasse mag erfunden",
    pronouns="nach ihn sie es das die dort da darin davon",
    likened="alternative_zu alternativen_zu über als wie statt außer zu zum für von namens ohne gegen",
    form_orders=r"lass(?:t)? (?:mal )?(?!mich|uns|es|das )"
    r"|(?:(?:ich|wir) )?(?:bräuchte[n]?|hätte[n]? gern[e]?)(?!\w)|(?:ich|wir) (?:will|wollen"
    r"|möchten?)(?!\w)",
    # Heroku bitte neu starten.
    form_asks=r"(?<!\w)(?:bitte|mal eben|kurz mal)(?!\w)[^,.]* [^\W\d_]{3,}(?:en|ern|eln)",
    form_how=r"(?<!\w)(?:wie (?!viele?(?!\w)|lange|oft|groß|hoch|heißt der)|wieso man|was ist (?:ein|eine) )",
    small="seit während trotz wegen gegen unter neben zwischen bis ab ich du er sie es wir ihr man mein meine dein "
    "deine unser unsere sein seine ihre vor nach am an als wenn "
    "weil dass aber oder und nur so sehr schon hier dort frage liebe danke ja nein gibt",
    form_refuses=r"(?<!\w)(?:nicht?|keinesfalls|nie|niemals|in ruhe|sein\W*$|weg\W*$)(?!\w)",
    form_tells=r"(?:reden|sprechen|diskutieren|plaudern)\W*$",
    form_says=(
        (r"(?:^\W*|(?<=bitte )|(?<=dann )|(?<=und ))lasst? ", r" (?!mich|uns|es|das |in |sein)[^,.]*en(?:$| und )"),
        # Kannst du x dafür nutzen?
        (
            r"^\W*(?:(?:kannst|könntest|würdest|magst) du|können wir|lass uns)(?: (?:bitte|mal|doch|dafür|dazu))* ",
            r"(?: (?:bitte|mal|doch|dafür|dazu))* (?:be)?(?:nutzen|verwenden|nehmen|fragen)(?!\w)",
        ),
        (
            r"^\W*(?:welche[rsmn]?|wie ?viele|gibt es)(?!\w)(?! (?:leute|firmen|menschen|alternativen|vorteile))"
            r"[^,.]{0,40}(?<!\w)(?:gerade|aktuell|derzeit|momentan|jetzt|heute|(?:neue|offene|aktive)[nsr]?)(?!\w)"
            r"[^,.]{0,40}"
            r"(?:in|auf) (?:der |dem |unserem )?",
            r"(?: (?:offen|aktiv|frei))?\W*$",
        ),
        (
            r"(?<!\w)was (?:(?:sagt|meint|weiß|findet|schreibt)(?: denn)? )?",
            r"(?: (?:so|denn))?(?: (?:sagt|meint|weiß|findet|schreibt))? (?:zu|zum|zur|dazu|über)(?!\w)",
        ),
    ),
)
_FR: Final = LanguageRow(
    "fr",
    asks="peux-tu pouvez-vous pourrais-tu pourriez-vous peut-on pouvons-nous veux-tu voulez-vous voudrais-tu tu_peux "
    "vous_pouvez tu_pourrais vous_pourriez est-ce_que_tu_peux est-ce_que_tu_pourrais est-ce_que_vous_pouvez "
    "est-ce_que_vous_pourriez serait-il_possible s'il_te_plaît s'il_vous_plaît s'il_te_plait s'il_vous_plait stp "
    "svp veuillez merci_de merci_d fais fais-moi donne-moi donnez-moi faites faisons on_va je_veux je_voudrais "
    "j'aimerais il_faudrait ce_serait_bien ce_serait_sympa ce_serait_cool ce_serait_gentil ça_serait_bien "
    "ça_serait_sympa que_tu que_vous j'ai_besoin il_faut faut il_me_faut il_nous_faut il_te_faut il_vous_faut "
    "il_me_faudrait "
    "sers-toi servez-vous",
    objects="le la les l l' un une des du mon ma mes notre nos ce cet cette ces tous toutes ça cela ceci",
    form_runs=r"(?:lance|exécute|utilise|appelle|essaie)[sz]?-(?:le|la)(?!\w)",
    orders="vois voyez cherche cherchez trouve trouvez trouve-moi lis lisez crée créez montre montrez montre-moi ouvre "
    "ouvrez "
    "écris "
    "écrivez envoie envoyez supprime supprimez ajoute ajoutez liste listez regarde regardez vérifie vérifiez va_voir "
    "va_chercher allez_voir allez_chercher va allez fais faites jette jetez lance lancez démarre démarrez redémarre "
    "redémarrez relance relancez génère générez mets mettez range rangez enregistre enregistrez sauvegarde note notez "
    "récupère récupérez prends prenez télécharge téléchargez calcule calculez compte comptez compare comparez copie "
    "copiez déplace déplacez clique cliquez remplis remplissez connecte-toi connectez-vous entre entrez traduis "
    "traduisez "
    "publie publiez commente commentez ferme fermez planifie réserve réservez extrais extrayez tire sors sortez "
    "affiche "
    "affichez dis-moi dites-moi donne donnez exporte exportez importe importez convertis convertissez teste testez "
    "consulte consultez interroge interrogez fouille fouillez passe passez modifie modifiez renomme stocke stockez "
    "dépose "
    "déposez dessine exécute exécutez essaie essaye déploie déployez",
    wonders="si pourquoi combien quel quelle quels quelles qui où ce_que ce_qui comment quand pourquoi",
    fetches="récupère récupérez tire extrais extrayez sors télécharge rapatrie",
    puts="envoie envoyez pousse poussez transfère transférez exporte exportez ajoute ajoutez publie publiez",
    uses="ouvre prends prenez utilise utilisez demande demandez interroge interrogez consulte consultez appelle "
    "appelez essaie essayez essaye utiliser interroger consulter demander "
    "lance lancez exécute exécutez",
    means="avec via par à_l'aide_de au_moyen_de grâce_à en_utilisant",
    places="dans sur",
    sources="d'après selon",
    of="pour dans sur de_la du des",
    refuses="ne pas jamais sans évite évitez aucun plutôt_que au_lieu arrête",
    tells="tout_le_monde chez_nous que quoi qui qu'est-ce pourquoi comment combien quand quel quelle quels quelles "
    "si où est sont était "
    "étaient fut a ont as-tu avez-vous tu_as vous_avez nous_avons hier dit explique expliquez compare fait "
    "fonctionne marche sert problème problèmes erreur erreurs souci",
    joins="et puis alors maintenant ensuite enfin d'abord donc ok bonjour salut s'il_te_plaît s'il_vous_plaît stp svp",
    fillers="l'outil outil la le les un une de d'un d'une donc moi toi vous à au serveur plutôt encore juste même",
    form_says=(
        (r"^\W*(?:dis|demande|dites|demandez) à ", r" (?:de |d['’])"),
        (
            r"^\W*(?:quel(?:le)?s?|combien|y a-t-il|est-ce qu['’]il y a)(?!\w)[^,.]{0,60} (?:sur|dans) (?:le |notre )?",
            r" (?:en ce moment|actuellement|maintenant|aujourd['’]hui|depuis [^,.?]{1,20})\W*$",
        ),
        (
            r"(?<!\w)dis-moi (?:ce qui|ce que|qui|combien|quels?|quelles?) (?!est |sont )[^,.]*(?:sur|dans|chez) ",
            "(?:$| )",
        ),
        (
            r"(?<!\w)(?:ce que (?:(?:dit|trouve|sait|pense) )?|qu['’]en (?:dit|pense) |que (?:dit|trouve|sait|pense) )",
            r"(?: (?:dit|trouve|sait|pense|propose))? (?:sur|de|des|du|au sujet|à propos|pour)(?!\w)",
        ),
    ),
    asked="on_peut_voir on_peut_savoir "
    "quel quelle quels quelles combien combien_de y_a-t-il y_a-t'il y_a il_y_a est-ce_qu'il_y_a est-ce_que "
    "a-t-on on_a "
    "qui qu'est-ce_qui qu'est-ce_qu'il_y_a c'est_quoi quoi_de_neuf as-tu j'ai_des j'ai_quoi ai-je est-ce_qu'on "
    "est-ce_que_j'ai est-ce_qu'on_a",
    now="mon ma mes notre nos je j'ai on nous moi en_ce_moment actuellement maintenant aujourd'hui hier cette_nuit "
    "ce_matin là "
    "nouveau nouveaux nouvelle nouvelles dernier derniers dernière dernières ouvert ouverts ouverte ouvertes actif "
    "actifs active actives "
    "en_cours encore depuis échoué échoués planté plantés tournent tourne en_retard en_attente assigné assignés "
    "assignées bloqué bloqués",
    itself="coûte coûtent prix tarif tarifs cher chère gratuit gratuite payant payante mieux pire vaut licence gens "
    "entreprises alternatives "
    "alternative avantages inconvénients différence marche fonctionne signifie veut_dire sécurisé légal appartient "
    "emplois postes travaille "
    "appris apprendre augmenté adore déteste inventé avis",
    pronouns="le la les ça y en",
    likened="alternative_à alternatives_à comme que contre sans pour au_sujet_de à_propos_de",
    form_orders=r"(?:tu|vous) (?:me |nous |m['’]|te )?(?!as |avez |es |êtes |connais|sais|penses|crois|aimes|trouves"
    r"|utilises|préfères|conseilles|recommandes|travailles)[^\W\d_]{2,18}"
    r"|(?!chez|pour|avec|sans|selon|et|à|de|entre|comme|c['’]est)[^\W\d_]{2,18} moi (?!aussi)"
    r"|(?<!\w)(?!expliqu|recommand|conseill)[^\W\d_]{2,18}-"
    r"(?:moi|nous|le|la|les|lui|en|y)(?!\w)|(?:il (?:me|nous) faudrait|j['’]aurais besoin"
    r"|j['’]ai besoin)",
    form_how=r"(?<!\w)(?:comment(?! va)|pourquoi on|c['’]est quoi un)(?!\w)",
    small="je tu il elle on nous ils elles mon ma mes ton ta tes son ses notre votre leur ce cet cette ces en sous "
    "chez comme mais ou et aussi très bien mal déjà ici là non oui c'est question merci doc",
    form_refuses=r"(?<!\w)(?:pas|jamais)(?!\w)",
    # J'ai lancé; il utilise.
    form_tells=r"(?<!\w)j['’](?!aimerais|ai besoin)\w"
    # Peut-il, fonctionne-t-elle.
    r"|(?<!\w)\w{2,20}-(?:t-)?(?:il|ils|elle|elles)(?!\w)"
    r"|(?<!\w)(?:je|il|elle|on|nous|ils|elles) (?!veux|voudrais|faut|va |me |te |vous )\w{1,20}(?= (?:l['’]outil )?$)",
)
_ES: Final = LanguageRow(
    "es",
    asks="puedes podrías puede podría podés podemos quieres necesitas por_favor porfa quiero queremos necesito "
    "necesitamos "
    "me_gustaría me_haces me_das dame te_pido_que sería_posible vamos_a haz hazme haga hagamos hay_que "
    "estaría_bien estaría_genial sería_genial sería_bueno vendría_bien molaría agradecería",
    objects="el la los las un una unos unas mi mis nuestro nuestra este esta estos estas todos todas",
    form_runs=r"(?:lánza|ejecúta|úsa|pruéba|córre|láncen|llám)(?:lo|la|alo|ala)(?!\w)",
    orders="busca busque búscame encuentra encuéntrame lee léeme crea cree créame muestra muéstrame abre ábreme "
    "escribe "
    "escríbeme envía envíame manda mándame borra añade añádeme lista mira comprueba revisa verifica consulta entra "
    "saca "
    "sácame saca tira trae tráeme toma descarga descárgame sube calcula cuenta compara copia mueve haz pulsa rellena "
    "inicia arranca lanza ejecuta corre reinicia relanza para pon ponme ponle guarda guárdalo guárdame apunta anota "
    "registra genera genérame traduce tradúceme publica comenta cierra planifica reserva extrae dime dame exporta "
    "importa "
    "convierte prueba cambia renombra elimina quita actualiza despliega escala dibuja averigua investiga echa échale "
    "échame navega ve vete anda mete inserta carga me_abres me_creas me_buscas me_pones me_mandas me_envías me_sacas "
    "me_lees me_traes me_haces me_das me_miras me_guardas me_subes",
    wonders="por_qué porqué qué cuál cuáles cuánto cuánta cuántos cuántas quién quiénes dónde si cuándo cómo lo_que",
    fetches="saca sácame tira trae tráeme extrae descarga descárgame recupera",
    puts="sube envía manda exporta añade agrega pasa publica empuja copia lleva",
    uses="abre usa usar use utiliza utilizar utilice consultar preguntar preguntar_a "
    "pide pregúntale pregunta_a pregúntale_a échale_un_vistazo_a échale_un_ojo_a "
    "dale_a "
    "prueba prueba_con ejecuta lanza llama_a consulta",
    means="con mediante usando vía via por_medio_de a_través_de",
    places="en desde por",
    sources="según",
    of="de del para en sobre por",
    refuses="no nunca jamás sin evita evite tampoco ningún en_vez_de en_lugar_de",
    tells="qué cuál cuáles cómo por_qué cuándo quién dónde para_qué si es son era fue fueron está estaba he ha has han "
    "hemos había ayer dijo explica explícame compara sirve funciona hace problema problemas error errores",
    joins="oye anda y luego después entonces ahora pues primero ok hola por_favor porfa",
    fillers="la el los las un una unos unas a al herramienta me nos servidor ya mejor",
    asked="puedo_ver se_puede_ver "
    "a_ver_qué a_ver qué cuál cuáles cuánto cuánta cuántos cuántas cuantos cuantas que hay tengo tenemos quién "
    "quien quiénes "
    "algún alguna está están queda "
    "quedan tiene tienen sigue siguen",
    now="mi mis nuestro nuestra nuestros nuestras tengo tenemos me nos yo ahora ahorita hoy ayer anoche actualmente "
    "en_este_momento nuevo nuevos nueva "
    "nuevas último últimos última últimas abierto abiertos abierta abiertas activo activos activa activas corriendo "
    "pendiente pendientes "
    "fallido fallidos fallidas caído caídos todavía aún desde asignado asignados asignadas bloqueado sin",
    itself="cuesta cuestan precio precios caro cara barato gratis mejor peor vale pena licencia gente empresas "
    "alternativas alternativa ventajas "
    "desventajas diferencia diferencian "
    "funciona significa seguro legal pertenece empleos trabaja aprender odia odio pereza asco "
    "rollo rabia encanta "
    "inventó compró opinas opinión",
    pronouns="lo la los las eso ahí allí",
    likened="alternativa_a alternativas_a sobre como que acerca_de para sin contra llamado",
    form_orders=r"(?:me|nos) [^\W\d_]{2,18}[ae]s |(?:me|nos) (?:puedes|podrías|podés)(?!\w)"
    r"|(?!expl[ií]c|recomi[eé]nd|acons[eé]j)[^\W\d_]{2,14}[aeiáéí](?:me|nos|le|les|lo|la|los|las|melo|mela|selo)(?!\w)",
    form_how=r"(?<!\w)(?:cómo(?! va)|como (?:puedo|se|hago)|qué es un)(?!\w)",
    small="yo tú él ella nosotros ellos ellas mi mis tu tus su sus nuestro este esta estos estas ese esa que entre "
    "como pero o e también muy aquí allí sí pregunta gracias lo se dile pídele",
    # ¿Me lanzas list_branches?
    form_opens=r"^\W*(?:me|nos) [a-z]{2,18}[ae]s $",
    form_says=(
        (r"^\W*(?:pídele|dile|pide|pedile|decile) a ", r" que (?!es |está )"),
        (
            r"^\W*(?:qué|cuáles|cuánt[oa]s|hay)(?!\w)[^,.]{0,40}(?<!\w)(?:activ[oa]s?|abiert[oa]s?|nuev[oa]s?"
            r"|pendientes"
            r"|ahora|hoy)(?!\w)[^,.]{0,40}(?<!\w)en ",
            r"\W*$",
        ),
        (
            r"(?<!\w)(?:dime|cuéntame) (?:qué|quién|quiénes|cuánt[oa]s?|cuáles) "
            r"(?!es |son |significa)[^,.]*(?:en|desde) ",
            "(?:$| )",
        ),
        (
            r"(?<!\w)(?:qué|lo que) (?:(?:dice|encuentra|sabe|opina|cuenta) )?",
            r"(?: (?:dice|encuentra|sabe|opina|cuenta))? (?:sobre|de|del|acerca)(?!\w)",
        ),
    ),
    # Past forms: ejecuté, funcionó, usaron.
    form_tells=r"(?<!\w)(?!qué|sé|podré)\w{3,20}(?:é|ó|aste|iste|aron|ieron|aba|aban)(?!\w)",
)
# In Japanese and Korean the verb, and with it all that tells a request, comes after the name.
_JA: Final = LanguageRow(
    "ja",
    form_asks="て|で|(?:て|で)?(?:ください|下さい|ほしい|くれる?|もらえ(?:る|ます|ません)か?|いただけ(?:ます|ません)か"
    "|くれ(?:ます|ません)か|(?:くれ|もらえ)ない(?:かな)?"
    r"|(?:くれ|もらえ|いただけ|頂け)(?:ると|たら|れば)、?(?:とても|大変|すごく)?(?:助か(?:る|ります)|(?:嬉し|うれし|ありがた)い|幸い)"
    r"(?:です|なぁ?|かな|ね)?)|お願い(?:します)?|頼む|頼みます|しよう|しましょう"
    "|(?:検索|確認|実行|移動|作成|取得|追加|更新|削除|表示|保存|登録|抽出|調査|翻訳|生成|送信|投稿|一覧)",
    form_means="で|を(?:使って|用いて|使用して)|に|から|へ|を|上で|経由で"
    "|の(?:(?!について|に関)[^、。]){1,20}(?:[をへ]|に(?!つい|関))",
    form_refuses="ないで|ないよう|なくて|禁止|やめて|止めて|使わない|呼ばない|ずに",
    form_says=(
        ("", " ?(?:は|って|なら)?(?:何[とて]|なん[とて]|どう)(?:言|い)(?:って|う)"),
        ("", " ?(?:で|だと|によると)[^、。]{0,40}ど[のれ]くらい"),
    ),
    form_tells="[^、。]{0,24}(?:の[^、。]{1,8}を(?:説明|解説)|の違い|使い方|方法|やり方|手順|料金|理由|という名前|引数|パラメータ)|[^、。]{0,24}(?:コード|スクリプト|プログラム|関数|メール|記事|俳句|詩|ドキュメント|説明書)"
    "を?(?:書|作|読)|(?:って|とは|は)(?:何|なに|なん|どう|いつ|なぜ|誰)|とは|について|の(?:使い方|説明|意味|違い)"
    "|[^、。]{0,12}(?:した|った|ました|でした)(?:$|が|けど|ら|の)|[^、。]{0,20}(?<!願いし)(?<!頼み)(?:ですか?|ます)$",
)
# Korean syllables that end in a past: 했, 썼; all with ㅆ but 있 (be) and 겠 (shall).
_PAST: Final = "".join(chr(code) for code in range(0xAC00 + 20, 0xD7A4, 28) if chr(code) not in "있겠")
_KO: Final = LanguageRow(
    "ko",
    form_asks="줘요?|주세요|주십시오|줄래요?|줄 ?수 ?있(?:어|니|나요|을까요?)요?|부탁(?:해|해요|합니다|드려요)?"
    "|하자|합시다|해라|해|하세요|하십시오|눌러",
    form_means="으?로|에서?|[을를] (?:사용|이용)",
    form_refuses="지 ?마|말아|말고|않|금지|없이",
    form_tells=rf"[^,.]{{0,12}}(?:뭐|뭘|뭔|무엇|왜|어떻게|언제|[{_PAST}]|인가|나요|습니까|사용법|설명|차이)"
    r"|[^,.]{0,20}(?<![줘세해까래])(?<!드려)요$",
)
# The rest of Chinese is in `phrasing` and `explicit`.
_ZH: Final = LanguageRow(
    "zh",
    form_runs="(?:跑|试|用|调用|执行|调)(?:一下|一遍|起来)",
    form_asks="一下[^,。]{0,20}",
    form_opens=r"(?:(?:[帮给]我们?|帮忙|请你?|麻烦你?|劳驾|能不能|能否|可否|我想?要)来?|来)一?[个次下]? ?$"
    r"|(?:看一眼|看看|看一下|看下|查一下|查查|查下|(?:做|跑|搞)一?[个次下]) ?$"
    r"|换(?:成|个)? ?$|(?<![我他她它们])(?:先|再|接着|赶紧|直接) ?$",
)
_SPACED: Final = (_EN, _DE, _FR, _ES)
_NO_ORDERS: Final = frozenset().union(*(row.no_orders for row in _SPACED))


def language_of(message: MessageText) -> LanguageRow:
    """Return the row of the script, or that which has most of the message's words; English if none has any."""
    if _KANA.search(message.plain):
        return _JA
    if _HANGUL.search(message.plain):
        return _KO
    if message.chinese:
        return _ZH
    plain = message.plain
    if "¿" in plain or "¡" in plain:
        return _ES
    words = [
        word.text
        for word in message.words[:_WORDS_READ]
        if "_" not in (plain[max(0, word.start - 1) : word.start], plain[word.end : word.end + 1])
    ]

    def shares(row: LanguageRow) -> tuple[int, int]:
        known = [word for word in words if word in row.words]
        return len(known), sum(word not in _EN.words for word in known)

    return max(_SPACED, key=shares)


def is_order(word: str) -> bool:
    """Tell whether a word can be an order: any but the small words of all languages, and -ing forms."""
    return word not in _NO_ORDERS and not word.endswith("ing")
