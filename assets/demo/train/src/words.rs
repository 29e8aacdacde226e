//! What stories are about: who, where and which things. Only data; each list has its favourites
//! first. Text may hold slots and choices like a schema.

/// Names by the pronoun that goes with them.
pub const GIRLS: &[&str] =
    &["Lily", "Mia", "Anna", "Sara", "Ruby", "Nora", "Ella", "Rosa", "Clara", "Ida", "Lucy", "Zoe"];
pub const BOYS: &[&str] =
    &["Tom", "Ben", "Max", "Leo", "Sam", "Jack", "Finn", "Tim", "Oscar", "Paul", "Henry", "Noah"];
pub const ANIMAL_GIRLS: &[&str] = &["Dot", "Hazel", "Poppy", "Luna", "Bella", "Willow"];
pub const ANIMAL_BOYS: &[&str] = &["Pip", "Bruno", "Toby", "Rusty", "Milo", "Hopper"];

/// Animals that can be the one a story is about, or a friend.
pub const ANIMAL_KINDS: &[&str] =
    &["rabbit", "fox", "bear", "mouse", "squirrel", "hedgehog", "badger", "otter", "beaver"];

/// `(elder, name to call them by, is a woman)`.
pub const ELDERS: &[(&str, &str, bool)] = &[
    ("mom", "Mom", true),
    ("dad", "Dad", false),
    ("grandma", "Grandma", true),
    ("grandpa", "Grandpa", false),
];

/// `(trait, how it shows)`.
pub const TRAITS: &[(&str, &str)] = &[
    ("kind", "{he} [always helped others|liked to help {his} friends|shared everything with {his} friends]."),
    ("curious", "{he} [always asked questions|wanted to know everything|looked under every stone]."),
    (
        "brave",
        "{he} [was not afraid to try new things|liked to say that nothing was too hard for {him}|climbed the tallest trees].",
    ),
    ("cheerful", "{he} [sang all day long|always had a smile on {his} face|laughed more than anyone else]."),
    ("clever", "{he} [liked to solve puzzles|always had good ideas|could think very fast]."),
    ("shy", "{he} [did not talk very much|liked to be quiet|often hid behind {elder}]."),
    ("gentle", "{he} [talked to the flowers and the bees|never hurt even a fly|had a soft voice]."),
    ("helpful", "{he} [helped {elder} every day|carried water and swept the floor]."),
    ("playful", "{he} [loved games of every kind|could play all day and never get tired]."),
];

/// Where the one the story is about lives.
pub const HOMES: &[&str] = &[
    "near the forest",
    "by the sea",
    "at the edge of a village",
    "on top of a green hill",
    "next to a big farm",
    "by a quiet river",
    "at the end of a long road",
];

/// Things to play with: `(noun, looks, what to do with it)`.
pub const THINGS: &[(&str, &[&str], &str)] = &[
    ("ball", &["red", "blue", "yellow", "big"], "throw it high and catch it"),
    ("kite", &["red", "blue", "green", "yellow"], "fly it in the wind"),
    ("boat", &["little", "blue", "wooden", "white"], "sail it on the water"),
    ("drum", &["red", "little", "shiny", "old"], "play music with it"),
    ("teddy bear", &["brown", "soft", "old"], "hug it and tell it stories"),
    ("book", &["blue", "old", "thick"], "read it under a tree"),
    ("wagon", &["red", "little", "wooden"], "pull it up and down the path"),
    ("hat", &["green", "yellow", "big"], "wear it and play king"),
    ("flute", &["silver", "wooden", "little"], "play sweet songs on it"),
    ("train", &["green", "little", "wooden"], "drive it over the stones"),
    ("doll", &["little", "pretty", "old"], "dress it up and play house"),
    ("rope", &["long", "yellow", "blue"], "jump over it and count"),
];

/// A place, what it is like on the day, and where things can hide.
pub struct Place {
    pub name: &'static str,
    pub at: &'static str,
    pub sights: &'static [&'static str],
    pub spots: &'static [&'static str],
}

pub const PLACES: &[Place] = &[
    Place {
        name: "the park",
        at: "in the park",
        sights: &[
            "The birds were singing in the trees.",
            "Children were playing on the grass.",
            "There were flowers everywhere.",
        ],
        spots: &[
            "under the bench",
            "behind the big tree",
            "next to the swings",
            "in the tall grass",
            "near the pond",
        ],
    },
    Place {
        name: "the forest",
        at: "in the forest",
        sights: &[
            "The sun was shining through the leaves.",
            "The air smelled of moss and mushrooms.",
            "It was green and quiet there.",
        ],
        spots: &[
            "under a bush",
            "behind an old log",
            "in a hollow tree",
            "under the leaves",
            "next to a big rock",
        ],
    },
    Place {
        name: "the beach",
        at: "at the beach",
        sights: &[
            "The waves were rolling in and out.",
            "The sand was warm and soft.",
            "White birds flew over the water.",
        ],
        spots: &["in the sand", "behind a rock", "under a boat", "near the water", "between the shells"],
    },
    Place {
        name: "the garden",
        at: "in the garden",
        sights: &[
            "The bees were humming around the roses.",
            "The apples on the tree were red and round.",
            "Butterflies danced in the air.",
        ],
        spots: &[
            "under the apple tree",
            "behind the roses",
            "next to the fence",
            "between the carrots",
            "in the shed",
        ],
    },
    Place {
        name: "the farm",
        at: "at the farm",
        sights: &[
            "The hens were running here and there.",
            "The cows looked up and said moo.",
            "It smelled of fresh hay.",
        ],
        spots: &["in the hay", "behind the barn", "under the cart", "next to the well", "near the hen house"],
    },
    Place {
        name: "the river",
        at: "by the river",
        sights: &[
            "The water was clear and cool.",
            "Little fish were swimming in the water.",
            "A frog jumped from stone to stone.",
        ],
        spots: &[
            "under the bridge",
            "behind the reeds",
            "between two stones",
            "near the old boat",
            "under a willow tree",
        ],
    },
    Place {
        name: "the meadow",
        at: "in the meadow",
        sights: &[
            "The grass was high and full of flowers.",
            "A soft wind was blowing.",
            "The clouds looked like white sheep.",
        ],
        spots: &[
            "in the high grass",
            "behind a small hill",
            "under the old oak",
            "next to the gate",
            "between the flowers",
        ],
    },
    Place {
        name: "the market",
        at: "at the market",
        sights: &[
            "There were so many people and colours.",
            "It smelled of bread and fresh fruit.",
            "Somebody was playing the fiddle.",
        ],
        spots: &[
            "under a table",
            "behind the baskets",
            "next to the fountain",
            "between the boxes",
            "near the bread stand",
        ],
    },
];

/// Animals that need help.
pub const SMALL_ANIMALS: &[&str] =
    &["kitten", "puppy", "bird", "duckling", "lamb", "frog", "piglet", "chick"];
/// Where they are stuck.
pub const TRAPS: &[&str] = &[
    "in a deep hole",
    "high up in a tree",
    "in the mud",
    "under a fence",
    "between two big rocks",
    "on a stone in the middle of the water",
];
pub const TOOLS: &[&str] = &["rope", "ladder", "long branch", "basket", "net", "big blanket", "wooden board"];
pub const TREATS: &[&str] =
    &["cookies", "bread and honey", "apples", "berries", "cake", "nuts", "warm soup", "pancakes"];
pub const WISE_ANIMALS: &[&str] = &["owl", "turtle", "crow", "goose", "toad", "heron"];
pub const VASES: &[(&str, &str)] = &[
    ("vase", "a beautiful blue vase"),
    ("teapot", "a fine white teapot"),
    ("bowl", "a big glass bowl"),
    ("flower pot", "a painted flower pot"),
    ("clock", "a little wooden clock"),
    ("lamp", "a lamp of green glass"),
];
pub const LURES: &[(&str, &str)] = &[
    ("butterfly", "a blue butterfly"),
    ("bird", "a golden bird"),
    ("balloon", "a red balloon"),
    ("white deer", "a white deer"),
    ("dragonfly", "a shiny dragonfly"),
];
pub const CLUES: &[&str] =
    &["an old map", "a small golden key", "a letter with a red seal", "a bottle with a note in it"];
pub const CAKES: &[&str] = &["cake", "pie", "honey cake", "apple pie", "berry tart"];
/// Shelf, farm and garden.
pub const INGREDIENTS: [&[&str]; 3] =
    [&["flour", "sugar", "oil"], &["milk", "eggs", "butter", "cream"], &["honey", "mint", "jam", "fruit"]];
pub const FLOWERS: &[&str] = &["sunflower", "red flower", "rose", "blue flower", "tulip", "golden flower"];
pub const CONTESTS: &[&str] = &["race", "boat race", "sack race", "running race"];
pub const BUILDS: &[(&str, &str)] = &[
    ("tree house", "a tree house"),
    ("hut", "a little hut"),
    ("raft", "a raft"),
    ("castle", "a wooden castle"),
    ("swing", "a big swing"),
    ("bridge", "a bridge over the stream"),
];
pub const COLORS: &[&str] = &["red", "blue", "yellow", "green", "white"];
pub const SKY: &[&str] = &["moon", "brightest star", "silver moon"];

/// What someone is afraid of, and how it goes.
pub struct Fear {
    pub name: &'static str,
    pub why: &'static str,
    pub help: &'static str,
    pub step: &'static str,
    pub good: &'static str,
}

pub const FEARS: &[Fear] = &[
    Fear {
        name: "the dark",
        why: "[At night, the shadows on the wall looked like monsters.|When the light went out, {he} hid under the blanket.]",
        help: "a little lantern",
        step: "[That night, {hero} walked into the dark room, one step at a time.|Together, they went down the dark hall, step by step.]",
        good: "[The big shadow was only a chair with a coat on it.|Through the window, {he} could see a thousand stars.]",
    },
    Fear {
        name: "the water",
        why: "[When {his} friends went swimming, {he} stayed on the sand.|{he} thought that the water was deep and cold.]",
        help: "a bright yellow ring to hold on to",
        step: "[First, {hero} put one toe in the water, and then one foot.|Slowly, {hero} walked into the water, up to {his} knees.]",
        good: "[The water was warm, and little fish swam around {his} feet.|Soon {he} was splashing and kicking like a frog.]",
    },
    Fear {
        name: "thunder",
        why: "[When the sky rumbled, {he} put {his} hands over {his} ears.|Every storm made {him} hide under the table.]",
        help: "a small drum",
        step: "[When the thunder came, {hero} hit the drum as hard as {he} could.|The next time it thundered, {hero} stood at the window and waited.]",
        good: "[The thunder answered, and it was like a song.|It was only the clouds, talking to each other.]",
    },
    Fear {
        name: "high places",
        why: "[{he} never climbed a tree, and {he} never went up the hill.|When {he} looked down, {his} head began to spin.]",
        help: "a strong rope to hold",
        step: "[{hero} climbed up the first step of the ladder, and then the next one.|Slowly, {hero} went up the tower, and {he} did not look down.]",
        good: "[From the top, {he} could see the whole village and the blue sea.|Up there, the wind was soft, and the houses looked like toys.]",
    },
    Fear {
        name: "big dogs",
        why: "[Once, a big dog had barked at {him}.|When {he} saw a dog, {he} ran to the other side of the road.]",
        help: "a small piece of bread",
        step: "[{hero} held out {his} hand, and the big dog came closer.|Slowly, {hero} walked up to the big dog next door.]",
        good: "[The dog licked {his} hand and wagged its tail.|The dog lay down and wanted to be petted.]",
    },
];
